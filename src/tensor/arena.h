// A bump allocator over memory that somebody else owns: a step's activations come from here, so
// that a running engine allocates nothing. Memory is given back by leaving a scope.
//
//   Arena::Scope scope(arena);
//   float* normed = arena.floats(rows * hidden);   // valid until `scope` ends
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

class Arena {
 public:
  static constexpr std::uint64_t kAlignment = 64;

  // Bytes that a request for `count` of them needs.
  template <typename T>
  static constexpr std::uint64_t array_bytes(std::int64_t count) {
    return (static_cast<std::uint64_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment *
           kAlignment;
  }
  static constexpr std::uint64_t float_bytes(std::int64_t count) {
    return array_bytes<float>(count);
  }

  explicit Arena(std::span<std::byte> memory) : memory_(memory) {}

  // 64-byte aligned if the memory is, uninitialised. The plan sized the arena, so running out is a
  // bug.
  template <typename T>
  T* array(std::int64_t count) {
    T* result = reinterpret_cast<T*>(memory_.data() + used_);
    used_ += array_bytes<T>(count);
    assert(used_ <= memory_.size());
    return result;
  }
  float* floats(std::int64_t count) { return array<float>(count); }

  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), mark_(arena.used_) {}
    ~Scope() { arena_.used_ = mark_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    std::uint64_t mark_;
  };

 private:
  std::span<std::byte> memory_;
  std::uint64_t used_ = 0;
};

}  // namespace quire
