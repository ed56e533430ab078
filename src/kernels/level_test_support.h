// For tests that run once for each instruction-set level: TEST_P with IsaLevel as the parameter,
// INSTANTIATE_TEST_SUITE_P(Levels, Suite, kAllLevels, level_test_name), QUIRE_SKIP_ABSENT_LEVEL().
// In kernels_emulated_test (kernels/cpu/intrinsics.h) all levels run wherever avx2 does.
#pragma once

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "kernels/op_table.h"

namespace quire {

inline const auto kAllLevels = ::testing::Values(IsaLevel::kRef, IsaLevel::kAvx2, IsaLevel::kAvx512,
                                                 IsaLevel::kAvx512VnniBf16, IsaLevel::kAmx);

inline std::string level_test_name(const ::testing::TestParamInfo<IsaLevel>& info) {
  return std::string(isa_level_name(info.param));
}

inline bool level_can_run(IsaLevel level) {
  const auto levels = available_levels();
  return std::find(levels.begin(), levels.end(), level) != levels.end();
}

}  // namespace quire

#define QUIRE_SKIP_ABSENT_LEVEL()                                          \
  if (!::quire::level_can_run(GetParam())) {                               \
    GTEST_SKIP() << "this processor lacks " << isa_level_name(GetParam()); \
  }                                                                        \
  static_assert(true)
