// Changes text before it is cut into words. Internal to src/text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/pattern.h"
#include "text/vocab_data.h"

namespace quire {

class Normalizer {
 public:
  // Errors as of Pattern::create.
  static Result<Normalizer> create(std::vector<NormalizerStep> steps);

  bool empty() const { return steps_.empty(); }

  struct Normalized {
    std::string text;
    bool keeps_start = true;  // the first character comes from the start of the original
  };
  // Bytes that are not UTF-8 stay as they are. An error is a limit of a pattern.
  Result<Normalized> normalize(std::string_view text) const;

 private:
  struct Step {
    NormalizerStep data;
    std::unique_ptr<const Pattern> pattern;  // kReplace only
  };
  std::vector<Step> steps_;
};

// Makes each `from` of a short text a `to`.
void replace_all(std::string& text, std::string_view from, std::string_view to);

// `text` with each match replaced by `content`.
Result<std::string> replace_matches(const Pattern& pattern, std::string_view text,
                                    std::string_view content);

}  // namespace quire
