#include "kernels/op_table.h"
#include "kernels/ops.h"

namespace quire {
namespace {

struct Gated {
  decltype(RowKernels::silu_and_mul) kernel;
  const MatmulPart& gate;
  const MatmulPart& up;
  std::int64_t rows;
  float* out;

  static void run(const void* arg, std::int64_t begin, std::int64_t end) {
    const Gated& self = *static_cast<const Gated*>(arg);
    const std::int64_t width = self.gate.outputs();
    for (std::int64_t row = 0; row < self.rows; ++row) {
      self.kernel(self.gate.out + row * self.gate.out_stride + begin,
                  self.up.out + row * self.up.out_stride + begin, end - begin,
                  self.out + row * width + begin);
    }
  }
};

}  // namespace

void gated_matmul(OpContext& ctx, const float* x, std::int64_t x_stride, std::int64_t rows,
                  ActivationMode mode, std::span<const MatmulPart, 2> parts, Activation activation,
                  float* out, const Stage& stage) {
  const RowKernels& kernels = ctx.table.rows;
  const Gated gated = {
      .kernel = activation == Activation::kSilu ? kernels.silu_and_mul : kernels.gelu_tanh_and_mul,
      .gate = parts[0],
      .up = parts[1],
      .rows = rows,
      .out = out};
  const MatmulEpilogue epilogue = {.run = Gated::run, .arg = &gated};
  matmul(ctx, x, x_stride, rows, mode, parts, stage, &epilogue);
}

}  // namespace quire
