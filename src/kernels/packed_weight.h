// Weights in the one form that matmul kernels read, at every instruction-set level.
//
// A matrix of N outputs by K inputs is cut into panels of 16 outputs; a panel is one contiguous
// stream that a kernel reads once, front to back, for any number of input rows. Inside a panel, K
// advances in units of four bytes per output, so that one 64-byte line has one unit of all 16
// outputs: the operand shape of vpdpbusd, vdpbf16ps and of an AMX tile row, and two AVX2 registers.
//
//   kF32    [K][16] float
//   kF16    [K][16] half
//   kBF16   [K/2][16][2] bfloat16 (odd K padded with zero)
//   quantized layouts: group_layout.h
//   compact layouts: what stands before the blocks of a row [16][bytes], then blocks of the
//                    checkpoint [K / weights of a block][16][bytes of a block]
//
// A matrix whose inputs stand in another order (GPTQ's activation order) has that order behind its
// panels, int32 [K]: place j of the panels is of input order[j].
//
// Outputs are padded to a multiple of 16 with zero weights; quantized K is a multiple of 32, or of
// 256 where scales are two-fold, or whole blocks. What is quantized at load needs a multiple of 32,
// too; a matrix with another K keeps the numbers of its checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/status.h"
#include "kernels/weight_layout.h"
#include "quant/codebook_groups.h"
#include "quant/encoding.h"
#include "quant/load_quantization.h"
#include "tensor/buffer.h"

namespace quire {

class ThreadPool;

// Changes whenever the packed bytes of some checkpoint do, or which of its matrices are packed as
// one: what was packed before and kept is not read again then.
inline constexpr int kPackedWeightVersion = 8;

std::string_view weight_layout_name(WeightLayout layout);

// The layout that stores `encoding`, one of weights, without loss.
WeightLayout layout_of(Encoding encoding);

// The encoding of a compact layout's blocks.
Encoding encoding_of_blocks(WeightLayout layout);

// Bytes of one panel of `inputs` inputs, and of a whole packed matrix.
std::uint64_t panel_bytes(WeightLayout layout, std::int64_t inputs);
std::uint64_t packed_bytes(WeightLayout layout, std::int64_t outputs, std::int64_t inputs);
// In a panel of a compact layout: from its start to the block that begins with `input`.
std::uint64_t block_offset(WeightLayout layout, std::int64_t input);
// Of an order of inputs.
constexpr std::uint64_t input_order_bytes(std::int64_t inputs) {
  return static_cast<std::uint64_t>(inputs) * sizeof(std::int32_t);
}

// How a matrix is packed.
struct PackOptions {
  LoadQuantization quantization = LoadQuantization::kNone;
  // Embeddings and logits: 8 bits also where other matrices get 4.
  bool vocabulary = false;
  // Told of each part of the checkpoint once it is read for the last time; by any worker.
  std::function<void(const std::uint8_t* data, std::uint64_t bytes)> done;
};

// The layout of a matrix with `inputs` columns under these options.
WeightLayout layout_at_load(Encoding encoding, std::int64_t inputs, const PackOptions& options);

// Whether matrices of so many rows can be packed as one, below each other: where the outputs of a
// panel share scales, none may be of two matrices.
constexpr bool can_be_stacked(Encoding encoding, std::int64_t rows) {
  const bool shares = encoding == Encoding::kF8Block128 || is_nested_codebook(encoding);
  return !shares || rows % kPanelOutputs == 0;
}

class PackedWeight {
 public:
  PackedWeight() = default;

  // In the host's memory. Packs the rows of `parts`, stacked in order (query, key and value
  // projections become one matrix), from their encodings; all parts share one encoding and one
  // number of columns, and one order of inputs. Reads the mapping once, in parallel, 1 MiB a worker
  // at a time. Errors: kBadModel for shapes or encodings that do not fit (K not a whole number of
  // the encoding's blocks, non-finite scales or weights), kResourceExhausted.
  static Result<PackedWeight> pack(ThreadPool& pool, const EncodedMatrix* parts, int num_parts,
                                   const PackOptions& options = {});

  // Weights that lie packed in `bytes`, packed_bytes(layout, outputs, inputs) of them, aligned to
  // 64, and behind them an order of inputs, if there are more; `owner` keeps them.
  static PackedWeight view(WeightLayout layout, std::int64_t outputs, std::int64_t inputs,
                           std::span<const std::uint8_t> bytes, std::shared_ptr<const void> owner);

  WeightLayout layout() const { return layout_; }
  std::int64_t outputs() const { return outputs_; }  // N, without padding
  std::int64_t inputs() const { return inputs_; }    // K
  std::int64_t num_panels() const { return (outputs_ + kPanelOutputs - 1) / kPanelOutputs; }
  std::uint64_t size_bytes() const { return bytes_.size(); }
  // All panels, and the order.
  std::span<const std::uint8_t> bytes() const { return bytes_; }
  // [inputs()], in the memory where the panels are; nullptr: as they are.
  const std::int32_t* input_order() const {
    if (!is_ordered_) return nullptr;
    return reinterpret_cast<const std::int32_t*>(bytes_.data() + bytes_.size()) - inputs_;
  }
  const std::uint8_t* panel(std::int64_t index) const {
    return bytes_.data() + static_cast<std::uint64_t>(index) * panel_bytes(layout_, inputs_);
  }

  // The weights of output `n` as floats, as products have them: out[inputs()].
  void decode_output(std::int64_t n, float* out) const;

 private:
  // Group `g` of a quantized one, in the order of the panels.
  void decode_group(std::int64_t n, std::int64_t g, float* out) const;

  WeightLayout layout_ = WeightLayout::kF32;
  std::int64_t outputs_ = 0;
  std::int64_t inputs_ = 0;
  bool is_ordered_ = false;
  std::span<const std::uint8_t> bytes_;  // of buffer_ or of what owner_ keeps
  Buffer buffer_;
  std::shared_ptr<const void> owner_;
};

}  // namespace quire
