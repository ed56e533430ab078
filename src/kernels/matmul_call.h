// What every op that begins with products of one input does: the input is rounded once into the
// forms that the weights want it in, each weight has its kernel, and panels of all weights are
// handed out in shrinking chunks to whichever worker is free.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

#include "kernels/matmul_kernel.h"
#include "kernels/op_table.h"
#include "kernels/ops.h"
#include "tensor/arena.h"

namespace quire {

// The form in which a kernel reads its inputs.
enum class InputForm : std::uint8_t { kFloat32, kBf16, kInt8, kInt16, kInt16Bytes };

// Which form and kernel serve each part of one call.
class KernelChoice {
 public:
  KernelChoice(const MatmulKernels& kernels, ActivationMode mode, std::int64_t rows,
               std::span<const MatmulPart> parts);

  InputForm form(WeightLayout layout) const;
  MatmulKernel kernel(WeightLayout layout) const;

 private:
  bool has_int8(WeightLayout layout) const;

  const MatmulKernels& kernels_;
  ActivationMode mode_;
  bool many_;
  bool bf16_;
};

// Some panels of a part, for some rows.
struct MatmulTile {
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  std::int64_t panel_begin = 0;
  std::int64_t panel_end = 0;
  const std::uint8_t* next_panels = nullptr;  // MatmulPanels; null: those behind these
  float* out = nullptr;                       // of the first row and output: [rows][out_stride]
  std::int64_t out_stride = 0;
  bool out_is_far = false;  // MatmulPanels
};

class MatmulCall {
 public:
  // Tiles have all rows.
  static constexpr std::int64_t kAllRows = std::numeric_limits<std::int64_t>::max();

  // Rounds x [rows][x_stride] for `parts`, which have one order of inputs. A tile's rows are those
  // of one chunk: `chunk_rows` of them, a multiple of MatmulKernels::max_block_rows, from a
  // multiple of it on, or what is left at the end. What is rounded lies in `workspace`.
  MatmulCall(OpContext& ctx, const float* x, std::int64_t x_stride, std::int64_t rows,
             std::int64_t chunk_rows, ActivationMode mode, std::span<const MatmulPart> parts,
             Arena& workspace);

  // Computes a tile of one of the parts; any worker.
  void compute(const MatmulPart& part, const MatmulTile& tile) const;

  // Computes all parts into their `out`, in one fork and join, and calls finish(part, tile, worker)
  // for every tile when its worker has computed it: tile.out is of its first row and output. Tiles
  // end with the rows of a chunk.
  template <typename F>
  void compute_all(ThreadPool& pool, std::span<const MatmulPart> parts, const F& finish) const;

  // Computes panels [begin, end) of a part into its `out` for all rows, chunk by chunk, and calls
  // finish(part, tile) for every tile; any worker.
  template <typename F>
  void compute_panels(const MatmulPart& part, std::int64_t begin, std::int64_t end,
                      const F& finish) const;

  // Panels that a worker gets at once, for parallel_for_guided().
  std::int64_t max_panels() const;

 private:
  // Forms that no part needs are empty.
  struct Inputs {
    const float* x = nullptr;
    std::int64_t x_stride = 0;
    const float* blocked = nullptr;
    Bf16Rows bf16;
    Int16Rows int16;
    Int16ByteRows int16_bytes;
    Int8Rows int8;
  };

  KernelChoice choice_;
  const PanelExpander* expanders_;  // [kNumWeightLayouts]
  std::int64_t rows_;
  std::int64_t chunk_rows_;
  bool out_is_far_;  // so many rows that what their sums are stored to comes from memory
  Inputs inputs_;
};

// A worker gets a multiple of so many panels: kernels compute several at once.
inline constexpr std::int64_t kPanelGrain = 2;

// What a call's products cost: weights are read once for all rows. What rounding and expanding add
// is not counted.
SpanCost cost_of(std::span<const MatmulPart> parts, std::int64_t rows);

template <typename F>
void MatmulCall::compute_panels(const MatmulPart& part, std::int64_t begin, std::int64_t end,
                                const F& finish) const {
  for (std::int64_t row = 0; row < rows_; row += chunk_rows_) {
    const std::int64_t row_end = std::min(rows_, row + chunk_rows_);
    const MatmulTile tile = {.row_begin = row,
                             .row_end = row_end,
                             .panel_begin = begin,
                             .panel_end = end,
                             .next_panels = part.weight->panel(row_end < rows_ ? begin : end),
                             .out = part.out + row * part.out_stride + begin * kPanelOutputs,
                             .out_stride = part.out_stride,
                             .out_is_far = out_is_far_};
    compute(part, tile);
    finish(part, tile);
  }
}

template <typename F>
void MatmulCall::compute_all(ThreadPool& pool, std::span<const MatmulPart> parts,
                             const F& finish) const {
  std::int64_t panels = 0;
  for (const MatmulPart& part : parts) panels += part.weight->num_panels();
  pool.parallel_for_guided(
      panels, kPanelGrain, max_panels(), [&](std::int64_t begin, std::int64_t end, int worker) {
        std::int64_t first = 0;  // of the part, where panels of all parts are counted on
        for (const MatmulPart& part : parts) {
          const std::int64_t num_panels = part.weight->num_panels();
          const std::int64_t panel_begin = std::max<std::int64_t>(begin - first, 0);
          const std::int64_t panel_end = std::min(end - first, num_panels);
          first += num_panels;
          if (panel_begin >= panel_end) continue;
          compute_panels(
              part, panel_begin, panel_end,
              [&](const MatmulPart& of, const MatmulTile& tile) { finish(of, tile, worker); });
        }
      });
}

}  // namespace quire
