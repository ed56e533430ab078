// Answers in harmony, the form of gpt-oss: messages, each with a header that says its channel and
// who it is for (OpenAI, "OpenAI Harmony Response Format").
//
//   <|channel|>analysis<|message|>...<|end|>
//   <|start|>assistant to=functions.f<|channel|>commentary json<|message|>{...}<|call|>
//   <|start|>assistant<|channel|>final<|message|>...<|return|>
//
// The prompt ends with the first message's <|start|>assistant.
#include <algorithm>
#include <array>
#include <utility>

#include "text/dialects/output_reader.h"

namespace quire {
namespace {

constexpr std::size_t kMaxHeaderBytes = 1024;
constexpr std::string_view kStartMark = "<|start|>";
constexpr std::string_view kChannelMark = "<|channel|>";
constexpr std::string_view kMessageMark = "<|message|>";
constexpr std::array<std::string_view, 5> kBodyMarks = {"<|end|>", "<|call|>", "<|return|>",
                                                        kStartMark, kChannelMark};
// With these an answer begins, unless it is plain text.
constexpr std::array<std::string_view, 5> kFirstWords = {kChannelMark, " to=", "to=", kStartMark,
                                                         kMessageMark};

enum class BodyKind : std::uint8_t { kContent, kReasoning, kArguments };

class ChannelReader final : public OutputReader {
 public:
  ChannelReader(bool calls, const ReasoningDialect* reasoning, OutputWriter& writer)
      : calls_(calls),
        reasoning_(reasoning != nullptr),
        final_is_rest_(reasoning != nullptr && reasoning->final_is_rest),
        writer_(writer) {}

  void feed(char c) override {
    switch (place_) {
      case Place::kFirst:
        return first_byte(c);
      case Place::kHeader:
        return header_byte(c);
      case Place::kBody:
        return body_byte(c);
      case Place::kBetween:
        return between_byte(c);
    }
  }

  void finish() override {
    if (place_ == Place::kBody) {
      for (const char c : std::exchange(held_, {})) body(c);
      return end_body();
    }
    verbatim(std::exchange(held_, {}));
  }

 private:
  enum class Place : std::uint8_t { kFirst, kHeader, kBody, kBetween };

  void first_byte(char c) {
    held_ += c;
    const auto begins = [this](std::string_view word) { return word.starts_with(held_); };
    if (std::ranges::none_of(kFirstWords, begins)) return as_text(std::exchange(held_, {}));
    if (std::ranges::find(kFirstWords, held_) == kFirstWords.end()) return;
    place_ = Place::kHeader;
    if (held_ == kMessageMark) begin_body();
  }

  void header_byte(char c) {
    held_ += c;
    if (held_.size() > kMaxHeaderBytes) return verbatim(std::exchange(held_, {}));
    if (held_.ends_with(kMessageMark)) begin_body();
  }

  void begin_body() {
    const std::string header = std::exchange(held_, {});
    place_ = Place::kBody;
    const std::string channel = word_after(header, kChannelMark);
    std::string recipient = word_after(header, "to=");
    any_ = false;
    space_.clear();
    if (calls_ && !recipient.empty() && recipient != "assistant") {
      constexpr std::string_view kNamespace = "functions.";
      if (recipient.starts_with(kNamespace)) recipient.erase(0, kNamespace.size());
      kind_ = BodyKind::kArguments;
      writer_.call(recipient, {});
    } else {
      kind_ = reasoning_ && channel == "analysis" ? BodyKind::kReasoning : BodyKind::kContent;
      to_the_end_ = final_is_rest_ && channel == "final";
    }
  }

  static std::string word_after(std::string_view header, std::string_view mark) {
    const std::size_t at = header.find(mark);
    if (at == std::string_view::npos) return {};
    header.remove_prefix(at + mark.size());
    return std::string(header.substr(0, header.find_first_of(" <")));
  }

  void body_byte(char c) {
    if (to_the_end_) return body(c);
    held_ += c;
    while (!held_.empty()) {
      const auto begins = [this](std::string_view mark) { return mark.starts_with(held_); };
      if (std::ranges::any_of(kBodyMarks, begins)) {
        if (std::ranges::find(kBodyMarks, held_) == kBodyMarks.end()) return;
        end_body();
        const bool header = held_ == kStartMark || held_ == kChannelMark;
        place_ = header ? Place::kHeader : Place::kBetween;
        if (!header) held_.clear();
        return;
      }
      body(held_.front());
      held_.erase(0, 1);
    }
  }

  void body(char c) {
    switch (kind_) {
      case BodyKind::kReasoning:
        if (!std::exchange(any_, true) && std::exchange(any_reasoning_, true)) {
          writer_.reasoning('\n');
        }
        return writer_.reasoning(c);
      case BodyKind::kContent:
        if (!std::exchange(any_, true) && std::exchange(any_content_, true)) writer_.content('\n');
        return writer_.content(c);
      case BodyKind::kArguments:
        if (is_json_space(c)) {
          space_ += c;
          return;
        }
        if (any_) writer_.arguments(space_);
        any_ = true;
        space_.clear();
        return writer_.arguments(std::string_view(&c, 1));
    }
  }

  void end_body() {
    if (place_ != Place::kBody || kind_ != BodyKind::kArguments) return;
    if (!any_) writer_.arguments("{}");
    writer_.end();
    kind_ = BodyKind::kContent;
  }

  void between_byte(char c) {
    if (held_.empty() && is_json_space(c)) return;
    held_ += c;
    if (held_ == kStartMark) {
      place_ = Place::kHeader;
    } else if (!kStartMark.starts_with(held_)) {
      as_text(std::exchange(held_, {}));
    }
  }

  void begin_text() {
    place_ = Place::kBody;
    kind_ = BodyKind::kContent;
    any_ = false;
  }

  // Text outside of a message, whose last byte may begin a mark.
  void as_text(const std::string& text) {
    begin_text();
    for (const char c : text) body_byte(c);
  }

  // A header that is none: its marks are text, too.
  void verbatim(const std::string& text) {
    if (text.empty()) return;
    begin_text();
    for (const char c : text) body(c);
  }

  bool calls_;
  bool reasoning_;
  bool final_is_rest_;
  OutputWriter& writer_;
  Place place_ = Place::kFirst;
  BodyKind kind_ = BodyKind::kContent;
  std::string held_;         // a header, or the beginning of a mark
  std::string space_;        // around arguments
  bool any_ = false;         // of this body
  bool to_the_end_ = false;  // it has no mark
  bool any_content_ = false;
  bool any_reasoning_ = false;
};

}  // namespace

std::unique_ptr<OutputReader> new_channel_reader(bool calls, const ReasoningDialect* reasoning,
                                                 OutputWriter& writer) {
  return std::make_unique<ChannelReader>(calls, reasoning, writer);
}

}  // namespace quire
