#include "kernels/machine_limits.h"

#include <vector>

#include <gtest/gtest.h>

#include "kernels/level_test_support.h"
#include "kernels/limit_table.h"

namespace quire {
namespace {

class Limits : public ::testing::TestWithParam<IsaLevel> {};

TEST_P(Limits, KernelsComputeWhatTheySay) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const LimitKernels& kernels = limit_kernels(GetParam());
  std::vector<float> data(std::size_t{64} * 37);
  double sum = 0.0;
  for (std::size_t i = 0; i < data.size(); ++i) sum += data[i] = static_cast<float>(i % 13);
  EXPECT_EQ(kernels.read(data.data(), static_cast<std::int64_t>(data.size())), sum);
  // Each chain x <- x / 2 + 1 tends to 2.
  const PeakKernel& f32 = kernels.peak(PeakKind::kF32);
  EXPECT_FLOAT_EQ(f32.run(100), static_cast<float>(f32.operations_per_round));
  // The others add up ones times ones.
  for (int kind = 1; kind < kNumPeakKinds; ++kind) {
    const PeakKernel& peak = kernels.peaks[kind];
    if (peak.run == nullptr) continue;
    EXPECT_EQ(peak.run(20), static_cast<float>(20 * peak.operations_per_round / 2)) << kind;
  }
}

TEST_P(Limits, LevelsHaveTheirInstructionsAndNoOthers) {
  QUIRE_SKIP_ABSENT_LEVEL();
  const LimitKernels& kernels = limit_kernels(GetParam());
  const auto has = [&](PeakKind kind) { return kernels.peak(kind).run != nullptr; };
  EXPECT_TRUE(has(PeakKind::kF32));
  EXPECT_EQ(has(PeakKind::kInt16Dot), GetParam() >= IsaLevel::kAvx2);
  EXPECT_EQ(has(PeakKind::kBf16Dot), GetParam() >= IsaLevel::kAvx512VnniBf16);
  EXPECT_EQ(has(PeakKind::kInt8Dot), GetParam() >= IsaLevel::kAvx512VnniBf16);
  EXPECT_EQ(has(PeakKind::kBf16Tile), GetParam() >= IsaLevel::kAmx);
  EXPECT_EQ(has(PeakKind::kInt8Tile), GetParam() >= IsaLevel::kAmx);
}

INSTANTIATE_TEST_SUITE_P(Levels, Limits, kAllLevels, level_test_name);

TEST(MachineLimits, RefusesNoThreads) {
  const auto limits = measure_machine_limits(0);
  ASSERT_FALSE(limits.ok());
  EXPECT_EQ(limits.status().code(), StatusCode::kInvalidArgument);
}

// Wide bounds that any machine of this century keeps: they catch a wrong unit, not a slow machine.
TEST(MachineLimits, MeasuresPlausibleNumbers) {
  const auto result = measure_machine_limits(3);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  const MachineLimits& limits = *result;
  EXPECT_FALSE(limits.processor.empty());
  ASSERT_EQ(limits.by_threads.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const ThreadLimits& entry = limits.by_threads[i];
    EXPECT_EQ(entry.threads, static_cast<int>(i) + 1);
    EXPECT_GE(entry.best_read_bandwidth, entry.median_read_bandwidth);
    EXPECT_GT(entry.median_read_bandwidth, 1e7);
    EXPECT_LT(entry.best_read_bandwidth, 1e13);
    for (int kind = 0; kind < kNumPeakKinds; ++kind) {
      ASSERT_EQ(entry.peaks[kind].has_value(),
                limit_kernels(limits.level).peaks[kind].run != nullptr);
      if (!entry.peaks[kind]) continue;
      EXPECT_GT(*entry.peaks[kind], 1e7);
      EXPECT_LT(*entry.peaks[kind], 1e15);
    }
    EXPECT_GT(entry.fork_join_seconds, 0.0);
    EXPECT_LT(entry.wake_up_seconds, 1.0);
  }
}

}  // namespace
}  // namespace quire
