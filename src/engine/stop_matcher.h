// Finds stop strings in text that arrives piece by piece, across the borders of tokens. Text that
// may still turn out to be the beginning of a stop string is held back.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stop) : stop_(std::move(stop)) {}

  struct Match {
    std::string text;                 // safe to hand out: what lies before the stop string
    std::optional<std::string> stop;  // the stop string, once one is complete
  };
  // Adds a piece. Among several matches the one that ends first counts, wherever the borders of the
  // pieces lie; among those, the longest. After a match the matcher must not be used again.
  Match add(std::string_view piece);

  // The end: what was held back.
  std::string flush();

 private:
  std::vector<std::string> stop_;
  std::string held_;
};

}  // namespace quire
