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
      : IndexByKey(num_keys, keys.size(), [&keys](std::size_t i) { return keys[i]; }) {}
  // key_of(i): the same, of `count` numbers.
  template <typename KeyOf>
  IndexByKey(std::size_t num_keys, std::size_t count, KeyOf key_of)
      : begins_(num_keys + 2, 0), numbers_(count) {
    for (std::size_t i = 0; i < count; ++i) ++begins_[key_of(i) + std::size_t{2}];
    for (std::size_t i = 2; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
    for (std::size_t i = 0; i < count; ++i) {
      numbers_[begins_[key_of(i) + std::size_t{1}]++] = static_cast<std::uint32_t>(i);
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
