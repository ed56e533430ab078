// Answers in which marks stand around reasoning and calls.
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "text/dialects/output_reader.h"

namespace quire {
namespace {

class MarkReader final : public OutputReader {
 public:
  MarkReader(const OutputDialect& dialect, std::shared_ptr<const ToolSet> tools,
             ReasoningStart start, OutputWriter& writer)
      : tools_(tools != nullptr ? dialect.tools : nullptr),
        reasoning_(dialect.reasoning),
        tool_set_(tools != nullptr ? std::move(tools) : std::make_shared<const ToolSet>()),
        writer_(writer) {
    if (tools_ != nullptr) section_.emplace(*tools_, *tool_set_, writer);
    const bool from_start = reasoning_ != nullptr && reasoning_->from_start;
    if (reasoning_ != nullptr &&
        (start == ReasoningStart::kOpen || (from_start && start == ReasoningStart::kUnsaid))) {
      begin_reasoning();
    }
  }

  void feed(char c) override {
    input_ += c;
    run();
  }

  void finish() override {
    while (in_section_) {
      section_has_ended(section_->finish());
      run();
    }
    for (const char c : std::exchange(held_, {})) show(c);
    if (!in_reasoning_ && !drops_space_) {
      for (const char c : space_) writer_.content(c);
    }
    space_.clear();
  }

 private:
  enum class Found : std::uint8_t { kNothing, kPart, kCalls, kBegin, kEnd, kDropped };

  void run() {
    while (next_ < input_.size()) {
      const char c = input_[next_++];
      if (in_section_) {
        section_byte(c);
      } else {
        text_byte(c);
      }
    }
    input_.clear();
    next_ = 0;
  }

  void section_byte(char c) {
    const CallReader::Step step = section_->feed(c);
    if (section_->any_calls() && !drops_space_) {
      space_.clear();
      drops_space_ = true;
    }
    if (step == CallReader::Step::kMore) return;
    section_has_ended(step == CallReader::Step::kNotIt ? section_->taken() : std::string());
  }

  // `again`: what of it is text, or the beginning of another section.
  void section_has_ended(const std::string& again) {
    in_section_ = false;
    is_fresh_ = section_->any_calls() || is_fresh_;
    at_start_ = false;
    if (!section_->any_calls()) {
      for (const char c : mark_) show(c);
    }
    input_.replace(0, next_, again);
    next_ = 0;
  }

  void text_byte(char c) {
    if (held_.empty() && opens_bare_section(c)) return;
    held_ += c;
    while (!held_.empty()) {
      if (is_json_space(held_.front())) {
        space_ += held_.front();
        held_.erase(0, 1);
        continue;
      }
      switch (find_mark()) {
        case Found::kPart:
          return;
        case Found::kNothing:
          show(held_.front());
          held_.erase(0, 1);
          break;
        case Found::kCalls:
          open_section(std::exchange(held_, {}),
                       in_reasoning_ ? CallTrust::kKnown : CallTrust::kAny);
          break;
        case Found::kBegin:
          held_.clear();
          begin_reasoning();
          break;
        case Found::kEnd:
          held_.clear();
          space_.clear();
          in_reasoning_ = false;
          drops_space_ = is_fresh_ = at_start_ = true;
          break;
        case Found::kDropped:
          held_.clear();
          space_.clear();
          drops_space_ = true;
          break;
      }
    }
  }

  void begin_reasoning() {
    space_.clear();
    in_reasoning_ = drops_space_ = is_fresh_ = true;
  }

  bool opens_bare_section(char c) {
    if (tools_ == nullptr || !tools_->bare || in_reasoning_ || !at_start_) return false;
    if (c != (tools_->list == ListForm::kRequired ? '[' : '{')) return false;
    open_section({}, CallTrust::kKnown);
    input_.insert(next_, 1, c);
    return true;
  }

  void open_section(std::string mark, CallTrust trust) {
    mark_ = std::move(mark);
    in_section_ = true;
    section_->open(mark_, trust);
  }

  // What `held_` is: all or part of a mark that counts here.
  Found find_mark() const {
    Found found = Found::kNothing;
    const auto look_at = [&](std::string_view mark, Found kind) {
      if (mark.empty() || found > Found::kPart || !mark.starts_with(held_)) return;
      found = mark == held_ ? kind : Found::kPart;
    };
    if (tools_ != nullptr) {
      for (const std::string_view mark : tools_->begin) look_at(mark, Found::kCalls);
    }
    if (reasoning_ == nullptr) return found;
    // A mark that the prompt has written already is often written again.
    if (is_fresh_) look_at(reasoning_->begin, Found::kBegin);
    if (in_reasoning_) {
      look_at(reasoning_->end, Found::kEnd);
    } else {
      for (const std::string_view mark : reasoning_->dropped) look_at(mark, Found::kDropped);
    }
    return found;
  }

  void show(char c) {
    if (is_json_space(c)) {
      space_ += c;
      return;
    }
    if (!drops_space_) {
      for (const char space : space_) write(space);
    }
    space_.clear();
    drops_space_ = is_fresh_ = at_start_ = false;
    write(c);
  }

  void write(char c) {
    if (in_reasoning_) {
      writer_.reasoning(c);
    } else {
      writer_.content(c);
    }
  }

  const ToolDialect* tools_;
  const ReasoningDialect* reasoning_;
  std::shared_ptr<const ToolSet> tool_set_;
  OutputWriter& writer_;
  std::optional<CallReader> section_;  // none where calls are not looked for
  std::string input_;                  // what is to be read, again where it was no call
  std::size_t next_ = 0;
  std::string held_;   // the beginning of a mark
  std::string space_;  // white space, which is dropped before a call
  std::string mark_;   // of the section
  bool in_section_ = false;
  bool in_reasoning_ = false;
  bool drops_space_ = false;  // white space that comes now stands behind a call or reasoning
  bool is_fresh_ = true;      // no text has come since a call, or since reasoning began or ended
  bool at_start_ = true;      // of the answer, or behind its reasoning
};

}  // namespace

std::unique_ptr<OutputReader> new_mark_reader(const OutputDialect& dialect,
                                              std::shared_ptr<const ToolSet> tools,
                                              ReasoningStart start, OutputWriter& writer) {
  return std::make_unique<MarkReader>(dialect, std::move(tools), start, writer);
}

}  // namespace quire
