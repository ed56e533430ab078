// Sets of states, as determinization makes them. Internal to src/text/grammar.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace quire {

// Numbered as they come; equal ones have one number.
class Subsets {
 public:
  // Forgets all; of `num_states` states from now on.
  void clear(std::size_t num_states) {
    members_.clear();
    begins_.assign(1, 0);
    alone_.assign(num_states, kFree);
    table_.clear();
    in_table_ = 0;
  }
  std::size_t size() const { return begins_.size() - 1; }
  std::size_t num_members() const { return members_.size(); }
  // Valid until the next one is added.
  std::span<const std::int32_t> operator[](std::size_t number) const {
    return {members_.data() + begins_[number], members_.data() + begins_[number + 1]};
  }
  // `subset` is sorted.
  std::int32_t number_of(std::span<const std::int32_t> subset) {
    std::int32_t& number =
        subset.size() == 1 ? alone_[static_cast<std::size_t>(subset.front())] : place_of(subset);
    if (number != kFree) return number;
    number = static_cast<std::int32_t>(size());
    members_.insert(members_.end(), subset.begin(), subset.end());
    begins_.push_back(members_.size());
    return number;
  }

 private:
  static constexpr std::int32_t kFree = -1;

  // Of the table: that of this subset, or a free one.
  std::int32_t& place_of(std::span<const std::int32_t> subset) {
    if ((in_table_ + 1) * 2 > table_.size()) grow();
    std::size_t at = hash_of(subset) & (table_.size() - 1);
    for (; table_[at] != kFree; at = (at + 1) & (table_.size() - 1)) {
      if (std::ranges::equal((*this)[static_cast<std::size_t>(table_[at])], subset)) {
        return table_[at];
      }
    }
    ++in_table_;
    return table_[at];
  }
  static std::size_t hash_of(std::span<const std::int32_t> subset) {
    std::uint64_t hash = subset.size();
    for (const std::int32_t state : subset) {
      hash = (hash ^ static_cast<std::uint32_t>(state)) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 29;
    }
    return static_cast<std::size_t>(hash);
  }
  void grow() {
    before_.swap(table_);
    table_.assign(std::max<std::size_t>(64, before_.size() * 2), kFree);
    for (const std::int32_t number : before_) {
      if (number == kFree) continue;
      std::size_t at = hash_of((*this)[static_cast<std::size_t>(number)]) & (table_.size() - 1);
      while (table_[at] != kFree) at = (at + 1) & (table_.size() - 1);
      table_[at] = number;
    }
  }

  std::vector<std::int32_t> members_;
  std::vector<std::size_t> begins_ = {0};
  std::vector<std::int32_t> alone_;   // numbers of the sets that are one state
  std::vector<std::int32_t> table_;   // of the others, open addressing
  std::vector<std::int32_t> before_;  // a smaller table
  std::size_t in_table_ = 0;
};

}  // namespace quire
