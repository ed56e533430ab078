// Times of ops on a GPU, as they are recorded.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/span_recorder.h"
#include "kernels/cuda/cuda_test_support.h"
#include "kernels/piece_key.h"

namespace quire {
namespace cuda_stage_times_test {

TEST_F(CudaOps, AreTimedInSomeSteps) {
  constexpr Stage kStep = {StageKind::kWhole, "step"};
  constexpr std::int64_t kCount = 1 << 22;
  SpanRecorder host(1000);
  SpanRecorder on_device(1000);
  gpu.ops->record_spans(host, on_device);
  DeviceArray<float> x(*gpu.device, *gpu.ops, std::vector<float>(kCount, 1.0F));
  ASSERT_TRUE(gpu.ops->synchronize().ok());
  constexpr std::uint64_t kSteps = 40;
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    const ScopedSpan span(&host, kStep);
    span.get()->id = step;
    gpu.ops->begin_step();
    PieceKey key;
    gpu.ops->run_piece(key, {}, [&] {
      gpu.ops->scale_in_place(2.0F, kCount, x.data());
      gpu.ops->clamp_in_place(1.0F, kCount, x.data());
    });
    gpu.ops->scale_in_place(0.5F, kCount, x.data());
    ASSERT_TRUE(gpu.ops->synchronize().ok());
  }
  // Steps of which ops of a piece are recorded, and one that is not part of it.
  std::uint64_t last_id = 0;
  std::int64_t last_end = 0;
  int steps = 0;
  for (std::uint64_t i = 0; i < on_device.num_ended(); ++i) {
    const Span& span = on_device[i];
    if (span.id == 0) {
      // 32 MiB are read and written.
      EXPECT_GT(span.duration_ns(), 2'000);
      EXPECT_GE(span.start_ns, last_end);
      last_end = span.end_ns;
      continue;
    }
    ++steps;
    EXPECT_EQ(i - span.first, 3);
    EXPECT_EQ(on_device[span.first].stage->name, "scale_in_place");
    EXPECT_EQ(on_device[span.first + 1].stage->name, "clamp_in_place");
    EXPECT_GT(span.id, last_id);
    last_id = span.id;
  }
  EXPECT_GE(steps, 3);
  EXPECT_LE(last_id, kSteps);
  EXPECT_EQ(x.read(*gpu.ops), std::vector<float>(kCount, 0.5F));
}

}  // namespace cuda_stage_times_test
}  // namespace quire
