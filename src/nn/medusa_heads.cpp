#include "nn/medusa_heads.h"

#include <cstddef>

namespace quire {
namespace {

constexpr Stage kMedusaBlockStage = {StageKind::kKernel, "medusa block"};
constexpr Stage kMedusaLogitsStage = {StageKind::kKernel, "medusa logits"};

}  // namespace

void MedusaHeads::logits(OpStream& ops, ActivationMode mode, std::int64_t head, const float* states,
                         std::int64_t rows, float* x, float* scratch, float* logits,
                         RowBest* best) const {
  const std::int64_t size = hidden_size();
  const auto bytes = static_cast<std::uint64_t>(rows * size) * sizeof(float);
  ops.copy(reinterpret_cast<const std::byte*>(states), bytes, reinterpret_cast<std::byte*>(x));
  for (const MedusaBlock& block : weights_.blocks[static_cast<std::size_t>(head)]) {
    const MatmulPart part = {.weight = &block.matrix,
                             .out = scratch,
                             .out_stride = size,
                             .bias = block.bias.data_or_null()};
    ops.matmul(x, size, rows, mode, {&part, 1}, kMedusaBlockStage);
    // SiLU(y) is y sigmoid(y): each number is its own gate.
    ops.add_gated(scratch, scratch, rows * size, 1, x);
  }
  const bool shared = weights_.outputs.size() == 1;
  const PackedWeight& output = weights_.outputs[shared ? 0 : static_cast<std::size_t>(head)];
  const MatmulPart part = {.weight = &output, .out = logits, .out_stride = vocab_size()};
  ops.matmul_and_best(x, size, rows, mode, part, best, kMedusaLogitsStage);
}

}  // namespace quire
