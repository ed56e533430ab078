// The numbers 0, 1, .. in groups by a key that each has. Internal to src/text/grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quire {

class IndexByKey {
 public:
  // keys[i]: of number i, below `num_keys`.
  IndexByKey(std::size_t num_keys, const std::vector<std::uint32_t>& keys)
      : begins_(num_keys + 2, 0), numbers_(keys.size()) {
    for (const std::uint32_t key : keys) ++begins_[key + std::size_t{2}];
    for (std::size_t i = 2; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
    for (std::size_t i = 0; i < keys.size(); ++i) {
      numbers_[begins_[keys[i] + std::size_t{1}]++] = static_cast<std::uint32_t>(i);
    }
  }
  // In ascending order.
  std::span<const std::uint32_t> of(std::size_t key) const {
    return {numbers_.data() + begins_[key], numbers_.data() + begins_[key + 1]};
  }

 private:
  std::vector<std::uint32_t> begins_, numbers_;
};

}  // namespace quire
