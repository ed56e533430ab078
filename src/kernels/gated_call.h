// The gate and up projections of an MLP with its activation, in tiles: a worker computes some
// panels of both for some rows into scratch that fits into its L2 cache, and stores the results of
// the activation.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/matmul_call.h"

namespace quire {

class GatedCall {
 public:
  // Floats of scratch that compute() needs: sums of one worker, gate and up, of some panels of both
  // for any level's MatmulKernels::chunk_rows.
  static constexpr std::int64_t kScratchFloats = std::int64_t{12} * 1024;

  // Rounds x [rows][inputs] into `workspace`, as MatmulCall does.
  GatedCall(OpContext& ctx, const float* x, std::int64_t rows, ActivationMode mode,
            const GatedProducts& products, Arena& workspace);

  std::int64_t num_panels() const { return parts_[0].weight->num_panels(); }
  std::int64_t max_panels() const { return call_.max_panels(); }  // for parallel_for_guided()

  // Panels [begin, end) of all rows of out [rows][outputs]; any worker.
  void compute(std::int64_t begin, std::int64_t end, float* scratch, float* out) const;

 private:
  void compute_tile(const MatmulTile& tile, float* out) const;

  MatmulPart parts_[2];
  MatmulCall call_;
  std::int64_t rows_;
  std::int64_t chunk_rows_;
  void (*activate_and_mul_)(const float* gate, const float* up, std::int64_t width, float* out);
  std::optional<ClampedGate> clamped_;
  void (*clamped_and_mul_)(const ClampedGate& clamped, const float* gate, const float* up,
                           std::int64_t width, float* out);
};

}  // namespace quire
