// Numbers of pairs, as automata of two automata need them. Internal to src/text/grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace quire {

// Below 0 at first. A table where that is small, as it mostly is.
class PairNumbers {
 public:
  PairNumbers(std::size_t firsts, std::size_t seconds) : seconds_(seconds) {
    constexpr std::size_t kMaxTable = 1 << 17;
    if (firsts * seconds <= kMaxTable) table_.assign(firsts * seconds, -1);
  }
  std::int32_t& of(std::size_t first, std::size_t second) {
    const std::size_t place = first * seconds_ + second;
    return table_.empty() ? rest_.try_emplace(place, -1).first->second : table_[place];
  }

 private:
  std::size_t seconds_;
  std::vector<std::int32_t> table_;
  std::unordered_map<std::size_t, std::int32_t> rest_;
};

}  // namespace quire
