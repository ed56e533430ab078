// What tests of blocks share that look at each token on its own: the rows of one step.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <vector>

#include "nn/nn_test_support.h"

namespace quire {

inline double gelu_tanh(double x) {
  return 0.5 * x *
         (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

class RowsOfAStep : public testing::TestWithParam<IsaLevel> {
 protected:
  static constexpr std::int64_t kRows = 70;  // more than are embedded at once

  void SetUp() override {
    QUIRE_SKIP_ABSENT_LEVEL();
    device_ = std::make_unique<CpuDevice>(2, op_table(GetParam()));
    hidden_ = random_floats(kRows * kHiddenSize, 1.0F, 5);
    ops_ = device_->make_stream({.max_rows = kRows, .max_inputs = 128}).value();
    plan_ = ops_->plan_attention(1, {});
  }

  // Runs body(ctx) with an arena of so many bytes.
  template <typename Body>
  void run(std::uint64_t arena_bytes, Body body) {
    const Buffer memory = Buffer::allocate(arena_bytes).value();
    Arena arena(memory.bytes());
    ForwardContext ctx{.ops = *ops_,
                       .arena = arena,
                       .tokens = {.num_tokens = kRows, .token_ids = tokens_.data()},
                       .attention_plan = plan_.get(),
                       .kv_layout = {}};
    body(ctx);
  }

  // A row of [...][kHiddenSize].
  static Numbers row_of(const Floats& x, std::int64_t row) {
    return {x.begin() + row * kHiddenSize, x.begin() + (row + 1) * kHiddenSize};
  }
  Numbers hidden_of(std::int64_t row) const { return row_of(hidden_, row); }

  static void expect_row(const Floats& x, std::int64_t row, const Numbers& expected) {
    for (std::int64_t i = 0; i < kHiddenSize; ++i) {
      ASSERT_NEAR(x[static_cast<std::size_t>(row * kHiddenSize + i)],
                  expected[static_cast<std::size_t>(i)], 5e-5)
          << "row " << row << ", number " << i;
    }
  }

  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<OpStream> ops_;
  std::unique_ptr<PlannedAttention> plan_;
  std::vector<TokenId> tokens_;
  Floats hidden_;
};

}  // namespace quire
