// What the calls of a piece of work depend on (OpStream::run_piece()): counts, places and choices,
// in an order that is always the same.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

namespace quire {

class PieceKey {
 public:
  void clear() { words_.clear(); }
  // Integers, enumerators, truth values and addresses.
  template <typename... T>
  void add(const T&... values) {
    (words_.push_back(word(values)), ...);
  }
  const std::vector<std::uint64_t>& words() const { return words_; }

 private:
  template <typename T>
  static std::uint64_t word(const T& value) {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>);
    if constexpr (std::is_pointer_v<T>) {
      return reinterpret_cast<std::uintptr_t>(value);
    } else {
      return static_cast<std::uint64_t>(value);
    }
  }

  std::vector<std::uint64_t> words_;
};

}  // namespace quire
