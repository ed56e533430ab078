// How often drafts are right, by their place, by how long the match before them was, and by which
// of several choices for the same place they are (in a tree of drafts): measured, the older the
// less it counts. A draft that was not computed is measured too, for what its request got is
// known afterwards; so nothing has to be tried to learn whether it would be worth it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "draft/speculative_config.h"

namespace quire {

class Acceptance {
 public:
  static constexpr std::size_t kPlaces = SpeculativeConfig::kMaxTokens;
  static constexpr std::array<std::int32_t, 2> kLongMatches = {4, 12};
  static constexpr std::size_t kClasses = kLongMatches.size() + 1;
  // Choices for a place after the same drafts: the only one, or the first, second, ... of several.
  static constexpr std::size_t kOnly = 0;
  static constexpr std::size_t kRanks = 4;  // more than that count as the last

  // Of choice `index` of `count` for the same place. A drafter that is wished for parts of a tree
  // would have made its first choice with or without others.
  static std::size_t rank_of(std::size_t index, std::size_t count, bool wished) {
    return count == 1 || (wished && index == 0) ? kOnly : index + 1;
  }

  // Of a draft after a match of so many tokens.
  static std::size_t class_of(std::int32_t match) {
    return static_cast<std::size_t>(
        std::ranges::count_if(kLongMatches, [&](std::int32_t length) { return match >= length; }));
  }

  // `decay`: of what was known before, with each draft.
  explicit Acceptance(double decay) : decay_(decay) {}

  // Whether the token at a place was right, where those before it were.
  void observe(std::size_t match_class, std::size_t place, bool right, std::size_t rank = kOnly) {
    add(right, counts_[match_class][std::min(rank, kRanks - 1)][place]);
    const bool first_choice = rank <= 1;
    if (place == 0 && first_choice) add(right, first_);
    if (right) {
      ++num_right_;
      ++num_right_since_wrong_;
    } else if (first_choice) {
      num_right_since_wrong_ = 0;
    }
  }

  // Whether nothing was observed yet.
  bool empty() const { return first_.tried == 0; }
  // Drafts that were right, at all places.
  std::int64_t num_right() const { return num_right_; }
  // Of them, those after the last first choice that was wrong.
  std::int64_t num_right_since_wrong() const { return num_right_since_wrong_; }
  // Whether first choices for the next token were wrong in most cases, after any match.
  bool mostly_wrong() const { return first_.right + 1 < kMostlyWrong * (first_.tried + 2); }

  // That the token at a place is right, where those before it were: what was seen, and
  // `prior` with the weight of kPriorWeight drafts.
  double probability(std::size_t match_class, std::size_t place, double prior,
                     std::size_t rank = kOnly) const {
    const Count& count = counts_[match_class][std::min(rank, kRanks - 1)][place];
    return (count.right + kPriorWeight * prior) / (count.tried + kPriorWeight);
  }

 private:
  static constexpr double kPriorWeight = 2;
  static constexpr double kMostlyWrong = 0.25;  // right in less than this share

  struct Count {
    double right = 0;
    double tried = 0;
  };
  void add(bool right, Count& count) const {
    count.tried = count.tried * decay_ + 1;
    count.right = count.right * decay_ + (right ? 1 : 0);
  }

  double decay_;
  std::int64_t num_right_ = 0;
  std::int64_t num_right_since_wrong_ = 0;
  Count first_;  // of first choices for the next token
  std::array<std::array<std::array<Count, kPlaces>, kRanks>, kClasses> counts_{};
};

}  // namespace quire
