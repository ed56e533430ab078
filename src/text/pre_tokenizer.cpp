#include "text/pre_tokenizer.h"

#include "text/byte_alphabet.h"

namespace quire {

namespace {

class CharacterPattern : public Pattern {
 public:
  explicit CharacterPattern(Scanner scanner) : scanner_(scanner) {}

  bool find(std::string_view text, std::size_t from, TextSpan& match, Status&) const override {
    return from < text.size() && scanner_(text, from, match);
  }

 private:
  Scanner scanner_;
};

Result<std::unique_ptr<const Pattern>> pattern_of(const PreTokenizerStep& step) {
  const auto scanned = [](Scanner scanner) {
    return std::unique_ptr<const Pattern>(new CharacterPattern(scanner));
  };
  switch (step.kind) {
    case PreTokenizerStep::Kind::kSplit:
      return Pattern::create(step.pattern);
    case PreTokenizerStep::Kind::kDigits:
      return scanned(find_numeric);
    case PreTokenizerStep::Kind::kPunctuation:
      return scanned(find_punctuation);
    case PreTokenizerStep::Kind::kWhitespace:
      return scanned(find_word_run);
    case PreTokenizerStep::Kind::kWhitespaceSplit:
      return scanned(find_white_space);
    case PreTokenizerStep::Kind::kMetaspace:
      if (step.content.empty()) {
        return Status::bad_model("tokenizer: a Metaspace step has no symbol for spaces");
      }
      return Pattern::create({.text = step.content, .is_regex = false});
    case PreTokenizerStep::Kind::kPrefixSpace:
    case PreTokenizerStep::Kind::kByteSymbols:
      break;
  }
  return std::unique_ptr<const Pattern>();
}

// Joins the pieces of a text, matches and what lies between, as a behavior says. A piece may be
// empty; it counts, but is no word.
template <typename Emit>
class PieceJoiner {
 public:
  PieceJoiner(SplitBehavior behavior, std::string_view text, const Emit& emit)
      : behavior_(behavior), text_(text), emit_(&emit) {}

  void add(std::size_t begin, std::size_t end, bool is_match) {
    if (behavior_ == SplitBehavior::kRemoved && is_match) return;
    if (has_pending_ && joins(is_match)) {
      pending_.end = end;
    } else {
      flush();
      pending_ = {begin, end};
      has_pending_ = true;
    }
    last_is_match_ = is_match;
  }

  void flush() {
    if (has_pending_ && pending_.begin < pending_.end) {
      (*emit_)(text_.substr(pending_.begin, pending_.end - pending_.begin), pending_.begin);
    }
    has_pending_ = false;
  }

 private:
  bool joins(bool is_match) const {
    switch (behavior_) {
      case SplitBehavior::kMergedWithPrevious:
        return is_match && !last_is_match_;
      case SplitBehavior::kMergedWithNext:
        return !is_match && last_is_match_;
      case SplitBehavior::kContiguous:
        return is_match == last_is_match_;
      case SplitBehavior::kRemoved:
      case SplitBehavior::kIsolated:
        break;
    }
    return false;
  }

  SplitBehavior behavior_;
  std::string_view text_;
  const Emit* emit_;
  TextSpan pending_;
  bool has_pending_ = false;
  bool last_is_match_ = false;
};

}  // namespace

Result<PreTokenizer> PreTokenizer::create(std::vector<PreTokenizerStep> steps) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.word_end_ = find_word_end(steps);
  for (PreTokenizerStep& step : steps) {
    QUIRE_ASSIGN_OR_RETURN(auto pattern, pattern_of(step));
    if (step.kind == PreTokenizerStep::Kind::kWhitespace) {
      step.behavior = SplitBehavior::kRemoved;
      step.invert = true;
    } else if (step.kind == PreTokenizerStep::Kind::kWhitespaceSplit) {
      step.behavior = SplitBehavior::kRemoved;
    } else if (step.kind == PreTokenizerStep::Kind::kMetaspace) {
      step.behavior = SplitBehavior::kMergedWithNext;
    }
    pre_tokenizer.steps_.push_back({std::move(step), std::move(pattern)});
  }
  return pre_tokenizer;
}

// One run over one text: each word that a step leaves goes through the steps after it at once.
class PreTokenizer::Run {
 public:
  Run(const std::vector<Step>& steps, WordSink& sink) : steps_(&steps), sink_(&sink) {}

  void step(std::size_t index, std::string_view text, bool at_start) {
    if (text.empty() || !status_.ok() || ended_) return;
    if (index == steps_->size()) {
      ended_ = !sink_->word(text);
      return;
    }
    const Step& step = (*steps_)[index];
    switch (step.data.kind) {
      case PreTokenizerStep::Kind::kPrefixSpace:
        if (text.front() == ' ') return this->step(index + 1, text, at_start);
        return this->step(index + 1, " " + std::string(text), at_start);
      case PreTokenizerStep::Kind::kByteSymbols: {
        std::string symbols;
        for (const char byte : text) symbols += byte_to_symbol(static_cast<std::uint8_t>(byte));
        return this->step(index + 1, symbols, at_start);
      }
      case PreTokenizerStep::Kind::kMetaspace: {
        const std::string spaced = with_metaspaces(step.data, text, at_start);
        if (step.data.split) return split(index, spaced, at_start);
        return this->step(index + 1, spaced, at_start);
      }
      default:
        return split(index, text, at_start);
    }
  }

  Status take_status() { return std::move(status_); }

 private:
  static std::string with_metaspaces(const PreTokenizerStep& step, std::string_view text,
                                     bool at_start) {
    std::string spaced;
    const bool prefixed = step.prefix == PreTokenizerStep::Prefix::kAlways ||
                          (step.prefix == PreTokenizerStep::Prefix::kFirst && at_start);
    if (prefixed && text.front() != ' ' && !text.starts_with(step.content)) spaced = step.content;
    for (const char c : text) {
      if (c == ' ') {
        spaced += step.content;
      } else {
        spaced += c;
      }
    }
    return spaced;
  }

  void split(std::size_t index, std::string_view text, bool at_start) {
    const Step& step = (*steps_)[index];
    const auto emit = [&](std::string_view word, std::size_t begin) {
      this->step(index + 1, word, at_start && begin == 0);
    };
    PieceJoiner joiner(step.data.behavior, text, emit);
    Matches matches(*step.pattern, text);
    const bool invert = step.data.invert;
    std::size_t end = 0;
    for (TextSpan match; !ended_ && matches.next(match, status_);) {
      if (match.begin != end) joiner.add(end, match.begin, invert);
      joiner.add(match.begin, match.end, !invert);
      end = match.end;
    }
    if (end != text.size()) joiner.add(end, text.size(), invert);
    joiner.flush();
  }

  const std::vector<Step>* steps_;
  WordSink* sink_;
  Status status_;
  bool ended_ = false;  // by the sink
};

Status PreTokenizer::run(std::string_view text, bool at_start, WordSink& sink) const {
  if (word_end_ != nullptr) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = word_end_(text, begin);
      if (!sink.word(text.substr(begin, end - begin))) break;
      begin = end;
    }
    return {};
  }
  Run run(steps_, sink);
  run.step(0, text, at_start);
  return run.take_status();
}

}  // namespace quire
