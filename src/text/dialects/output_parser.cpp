#include "text/dialects/output_parser.h"

#include "base/random.h"
#include "text/dialects/output_reader.h"

namespace quire {
namespace {

std::string letters(std::size_t count, std::uint64_t seed, std::uint64_t counter) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::string text;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 8 == 0) bits = random_bits(seed, counter * 8 + i / 8);
    text += kLetters[bits % kLetters.size()];
    bits /= kLetters.size();
  }
  return text;
}

}  // namespace

// Joins what readers hand on byte by byte, and gives calls their ids.
class OutputParser::Writer final : public OutputWriter {
 public:
  Writer(IdRule ids, std::uint64_t seed) : ids_(ids), seed_(seed) {}

  void write_to(std::vector<OutputEvent>* events) {
    events_ = events;
    first_ = events->size();
  }
  int num_calls() const { return next_index_; }

  void content(char c) override { of_kind(OutputEvent::Kind::kContent, 0).text += c; }
  void reasoning(char c) override { of_kind(OutputEvent::Kind::kReasoning, 0).text += c; }
  void call(std::string_view name, std::string_view written_id) override {
    const int index = next_index_++;
    events_->push_back({.kind = OutputEvent::Kind::kCall,
                        .text = std::string(name),
                        .index = index,
                        .id = id_of(index, written_id)});
  }
  void arguments(std::string_view piece) override {
    of_kind(OutputEvent::Kind::kArguments, next_index_ - 1).text += piece;
  }
  void end() override {
    events_->push_back({.kind = OutputEvent::Kind::kCallEnd, .text = {}, .index = next_index_ - 1});
  }

 private:
  OutputEvent& of_kind(OutputEvent::Kind kind, int index) {
    if (events_->size() == first_ || events_->back().kind != kind) {
      events_->push_back({.kind = kind, .text = {}, .index = index});
    }
    return events_->back();
  }

  std::string id_of(int index, std::string_view written) const {
    if (!written.empty()) return std::string(written);
    const auto counter = static_cast<std::uint64_t>(index);
    if (ids_ == IdRule::kNine) return letters(9, seed_, counter);
    return "call_" + letters(24, seed_, counter);
  }

  IdRule ids_;
  std::uint64_t seed_;
  std::vector<OutputEvent>* events_ = nullptr;
  std::size_t first_ = 0;  // events before it are the caller's
  int next_index_ = 0;
};

OutputParser::OutputParser(const OutputDialect& dialect, std::shared_ptr<const ToolSet> tools,
                           ReasoningStart start, std::uint64_t id_seed) {
  const bool calls = dialect.tools != nullptr && tools != nullptr;
  writer_ = std::make_unique<Writer>(calls ? dialect.tools->ids : IdRule::kRandom, id_seed);
  const bool channels = (calls && dialect.tools->channels) ||
                        (dialect.reasoning != nullptr && dialect.reasoning->channels);
  reader_ = channels
                ? new_channel_reader(calls, dialect.reasoning, *writer_)
                : new_mark_reader(dialect, calls ? std::move(tools) : nullptr, start, *writer_);
}

OutputParser::~OutputParser() = default;

void OutputParser::feed(std::string_view piece, std::vector<OutputEvent>& events) {
  writer_->write_to(&events);
  for (const char c : piece) reader_->feed(c);
}

void OutputParser::finish(std::vector<OutputEvent>& events) {
  writer_->write_to(&events);
  reader_->finish();
}

int OutputParser::num_calls() const { return writer_->num_calls(); }

ReasoningStart reasoning_start(const ReasoningDialect& dialect, std::string_view prompt_tail) {
  if (dialect.channels) return ReasoningStart::kUnsaid;
  const std::size_t end = prompt_tail.find_last_not_of(" \t\r\n");
  const std::string_view text = prompt_tail.substr(0, end + 1);
  if (end != std::string_view::npos && text.ends_with(dialect.begin)) return ReasoningStart::kOpen;
  if (end != std::string_view::npos && text.ends_with(dialect.end)) return ReasoningStart::kClosed;
  return ReasoningStart::kUnsaid;
}

}  // namespace quire
