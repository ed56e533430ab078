// gated_matmul(): bit for bit matmul() and the activation after it, on every level, for weights in
// one matrix and in two, at widths that end within a panel, whatever the threads.
#include <array>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/level_test_support.h"
#include "kernels/matmul_test_support.h"
#include "kernels/ops.h"
#include "tensor/buffer.h"

namespace quire {
namespace {

constexpr std::int64_t kInputs = 256;
constexpr std::int64_t kMaxRows = 20;

std::vector<float> normal_values(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

class GatedMatmul : public testing::TestWithParam<IsaLevel> {
 protected:
  OpContext context(ThreadPool& pool) {
    return {.pool = pool, .table = op_table(GetParam()), .workspace = workspace_.bytes()};
  }

  // `merged`: gate and up lie in one matrix, one after the other.
  void compare(Encoding encoding, std::int64_t width, bool merged, Activation activation) {
    ThreadPool pool(1);
    OpContext ctx = context(pool);
    const TestMatrix both(encoding, 2 * width, kInputs, 5);
    const TestMatrix first(encoding, width, kInputs, 6);
    const TestMatrix second(encoding, width, kInputs, 7);
    const PackedWeight gate = pack_or_die(pool, merged ? both : first);
    const PackedWeight up = merged ? PackedWeight() : pack_or_die(pool, second);
    const std::vector<float> bias = normal_values(2 * width, 8);
    const std::vector<float> x = normal_values(kMaxRows * kInputs, 9);
    const auto size = static_cast<std::size_t>(kMaxRows * width);
    std::vector<float> gate_up(2 * size);
    std::array<MatmulPart, 2> parts;
    parts[0] = {.weight = &gate,
                .out = gate_up.data(),
                .out_stride = 2 * width,
                .bias = bias.data(),
                .num_outputs = width};
    parts[1] = {.weight = merged ? &gate : &up,
                .out = gate_up.data() + width,
                .out_stride = 2 * width,
                .bias = bias.data() + width,
                .first_output = merged ? width : 0,
                .num_outputs = width};
    for (const std::int64_t rows : {1, 3, 4, 7, 20}) {
      for (const ActivationMode mode :
           {ActivationMode::kFloat32, ActivationMode::kInt16, ActivationMode::kInt8}) {
        std::vector<float> wanted(size, -1.0F);
        if (merged) {
          const MatmulPart whole = {
              .weight = &gate, .out = gate_up.data(), .out_stride = 2 * width, .bias = bias.data()};
          matmul(ctx, x.data(), kInputs, rows, mode, std::span(&whole, 1));
        } else {
          matmul(ctx, x.data(), kInputs, rows, mode, parts);
        }
        const auto activate = activation == Activation::kSilu ? silu_and_mul : gelu_tanh_and_mul;
        activate(ctx, gate_up.data(), rows, width, wanted.data());
        for (const int threads : {1, 2, 5}) {
          ThreadPool threads_pool(threads);
          OpContext threads_ctx = context(threads_pool);
          std::vector<float> out(size, -1.0F);
          std::fill(gate_up.begin(), gate_up.end(), 0.0F);
          gated_matmul(threads_ctx, x.data(), kInputs, rows, mode, parts, activation, out.data());
          ASSERT_EQ(std::memcmp(out.data(), wanted.data(), size * sizeof(float)), 0)
              << static_cast<int>(encoding) << " " << width << " rows " << rows << " threads "
              << threads;
        }
      }
    }
  }

  Buffer workspace_ = Buffer::allocate(matmul_workspace_bytes(kMaxRows, kInputs)).value();
};

TEST_P(GatedMatmul, IsTheProductsAndTheActivation) {
  QUIRE_SKIP_ABSENT_LEVEL();
  for (const Encoding encoding :
       {Encoding::kF32, Encoding::kBF16, Encoding::kQ8_0, Encoding::kQ4_1, Encoding::kQ6_K}) {
    for (const std::int64_t width : {16, 48, 208}) {
      compare(encoding, width, true, Activation::kSilu);
      compare(encoding, width, false, Activation::kGeluTanh);
    }
    compare(encoding, 9, false, Activation::kSilu);
    compare(encoding, 172, false, Activation::kSilu);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, GatedMatmul, kAllLevels, level_test_name);

}  // namespace
}  // namespace quire
