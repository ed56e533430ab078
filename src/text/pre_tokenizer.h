// Cuts text into the words that BPE works on, step by step. Internal to src/text.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/pattern.h"
#include "text/scanners.h"
#include "text/vocab_data.h"

namespace quire {

// Receives the words in order; false: no more are wanted.
class WordSink {
 public:
  virtual bool word(std::string_view word) = 0;

 protected:
  ~WordSink() = default;
};

class PreTokenizer {
 public:
  // Errors as of Pattern::create, and kBadModel for a step that lacks what it needs.
  static Result<PreTokenizer> create(std::vector<PreTokenizerStep> steps);

  bool empty() const { return steps_.empty(); }

  // Passes the words of `text` to `sink`, none of them empty. `at_start`: the text before is empty.
  // An error is a limit of a pattern; some words have been passed by then.
  Status run(std::string_view text, bool at_start, WordSink& sink) const;

 private:
  struct Step {
    PreTokenizerStep data;
    std::unique_ptr<const Pattern> pattern;
  };
  class Run;

  std::vector<Step> steps_;
  WordEnd word_end_ = nullptr;  // of all steps, if it is known
};

}  // namespace quire
