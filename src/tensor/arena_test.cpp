#include "tensor/arena.h"

#include <array>
#include <cstddef>

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Arena, GivesAlignedPiecesAndTakesThemBack) {
  alignas(Arena::kAlignment) std::array<std::byte, 4 * Arena::kAlignment> memory;
  Arena arena(memory);
  const auto offset = [&](const void* at) {
    return static_cast<const std::byte*>(at) - &memory[0];
  };
  EXPECT_EQ(offset(arena.floats(1)), 0);
  {
    const Arena::Scope scope(arena);
    EXPECT_EQ(offset(arena.array<std::byte>(65)), 64);
    EXPECT_EQ(offset(arena.floats(16)), 192);
  }
  EXPECT_EQ(offset(arena.floats(48)), 64);  // the last byte, and no more
  EXPECT_EQ(Arena::float_bytes(16), 64U);
  EXPECT_EQ(Arena::float_bytes(17), 128U);
}

TEST(ArenaDeathTest, AnAssertionEndsAnOverflow) {
#ifdef NDEBUG
  GTEST_SKIP() << "an optimized build has no assertions";
#else
  alignas(Arena::kAlignment) std::array<std::byte, 2 * Arena::kAlignment> memory;
  Arena arena(memory);
  arena.floats(16);
  EXPECT_DEATH(arena.floats(17), "memory_.size");
#endif
}

}  // namespace
}  // namespace quire
