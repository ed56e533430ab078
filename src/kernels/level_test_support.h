// For tests that run once for each instruction-set level: TEST_P with IsaLevel as the parameter,
// INSTANTIATE_TEST_SUITE_P(Levels, Suite, kAllLevels, level_test_name), QUIRE_SKIP_ABSENT_LEVEL().
// A program that emulates instructions (kernels/cpu/intrinsics.h) runs the levels that the
// processor lacks: what that has is tested without.
#pragma once

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "kernels/op_table.h"
#include "kernels/processor.h"

namespace quire {

inline const auto kAllLevels = ::testing::Values(IsaLevel::kRef, IsaLevel::kAvx2, IsaLevel::kAvx512,
                                                 IsaLevel::kAvx512VnniBf16, IsaLevel::kAmx);

inline std::string level_test_name(const ::testing::TestParamInfo<IsaLevel>& info) {
  return std::string(isa_level_name(info.param));
}

inline bool level_can_run(IsaLevel level) {
#if defined(QUIRE_EMULATE_WIDE_VECTORS)
  if (processor_has(level)) return false;
#endif
  const auto levels = available_levels();
  return std::find(levels.begin(), levels.end(), level) != levels.end();
}

// Hundreds of times slower than the others: tests that compute for long compute less there.
inline bool level_is_slow([[maybe_unused]] IsaLevel level) {
#if defined(QUIRE_EMULATE_WIDE_VECTORS)
  return true;
#else
  return level == IsaLevel::kRef;
#endif
}

inline std::string why_level_is_skipped(IsaLevel level) {
  return (processor_has(level) ? "not emulated, for this processor has "
                               : "this processor lacks ") +
         std::string(isa_level_name(level));
}

}  // namespace quire

#define QUIRE_SKIP_ABSENT_LEVEL()                              \
  if (!::quire::level_can_run(GetParam())) {                   \
    GTEST_SKIP() << ::quire::why_level_is_skipped(GetParam()); \
  }                                                            \
  static_assert(true)
