// Finds stop strings in text that arrives piece by piece, across the borders of tokens. Text that
// may still turn out to be the beginning of a stop string is kept back.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

class StopMatcher {
 public:
  // `include`: a stop string is itself part of the text that is handed out.
  explicit StopMatcher(std::vector<std::string> stop, bool include = false)
      : stop_(std::move(stop)), include_(include) {}

  struct Match {
    std::string text;                 // safe to hand out: up to the stop string, or its end
    std::optional<std::string> stop;  // the stop string, once one is complete
  };
  // Adds a piece. Among several matches the one that ends first counts, wherever the borders of the
  // pieces lie; among those, the longest. After a match the matcher must not be used again.
  Match add(std::string_view piece);

  // The end: what was kept back.
  std::string flush();

 private:
  std::vector<std::string> stop_;
  bool include_;
  std::string held_;
};

}  // namespace quire
