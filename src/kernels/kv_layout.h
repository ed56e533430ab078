// Where keys and values lie inside the KV memory of one layer. Blocks of `block_size` tokens follow
// each other, or lie further apart where others are between them; inside a block come for each head
// its keys and its values, so that they are read from one place, and for int8 then all scales:
//
//   keys    [row_dims / key_group()][block_size][key_group()]
//   values  [block_size / value_group()][row_dims][value_group()]
//   scales  float32 [2][num_kv_heads][block_size]: of the keys, of the values
//
// Where there is one vector for each token and head, the latent of DeepSeek-V2's attention
// (DeepSeek-AI 2024), it is a key, the last of its numbers are the value, and there are no values
// and scales of values.
//
// Keys are transposed, so that the keys of a block fill a vector's lanes: a score then sums its
// products one after the other, in the order of the dimensions, and no lanes are added up. Pairs of
// numbers below 32 bits that a sum adds one after the other lie side by side, as the instructions
// for dot products want them: two dimensions of a key, and the values of two tokens.
//
// The layout belongs to the kernels: nobody else computes these offsets. Always inlined, because
// files compiled with instruction-set flags use them: the linker could pick such a file's
// out-of-line copy for all.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "tensor/dtype.h"

namespace quire {

struct KvLayout {
  // kF32, kBF16, kF8E4M3 (values beyond 448 saturate) or kI8 (a scale for each token and head).
  DType dtype = DType::kBF16;
  std::int32_t block_size = 16;
  std::int32_t num_kv_heads = 1;
  std::int32_t head_dim = 64;
  std::uint64_t stride = 0;  // bytes from a block to the next; 0: block_bytes()
  // Numbers of a key that are the value, its last ones, a multiple of four; 0: values lie apart.
  std::int32_t latent_dims = 0;

  [[gnu::always_inline]] constexpr bool has_scales() const { return dtype == DType::kI8; }
  // How many neighbouring dimensions of one key lie side by side.
  [[gnu::always_inline]] constexpr std::int32_t key_group() const {
    return dtype == DType::kF32 ? 1 : 2;
  }
  // How many neighbouring tokens have their values side by side.
  [[gnu::always_inline]] constexpr std::int32_t value_group() const {
    return block_size % 2 == 0 ? key_group() : 1;
  }
  // head_dim, padded with zeros to whole multiples of four bytes.
  [[gnu::always_inline]] constexpr std::int32_t row_dims() const { return padded(head_dim); }
  [[gnu::always_inline]] constexpr bool has_values() const { return latent_dims == 0; }
  // Of a value, and the same padded.
  [[gnu::always_inline]] constexpr std::int32_t value_dims() const {
    return has_values() ? head_dim : latent_dims;
  }
  [[gnu::always_inline]] constexpr std::int32_t value_row_dims() const {
    return padded(value_dims());
  }
  [[gnu::always_inline]] constexpr std::uint64_t value_row_bytes() const {
    return static_cast<std::uint64_t>(value_row_dims()) * dtype_bytes(dtype);
  }
  // Of one token's key or value in one head.
  [[gnu::always_inline]] constexpr std::uint64_t row_bytes() const {
    return static_cast<std::uint64_t>(row_dims()) * dtype_bytes(dtype);
  }
  // Keys, values and scales of one token in one layer.
  [[gnu::always_inline]] constexpr std::uint64_t token_bytes() const {
    return kinds() * static_cast<std::uint64_t>(num_kv_heads) *
           (row_bytes() + (has_scales() ? sizeof(float) : 0));
  }
  [[gnu::always_inline]] constexpr std::uint64_t block_bytes() const {  // of one block in one layer
    return static_cast<std::uint64_t>(block_size) * token_bytes();
  }

  [[gnu::always_inline]] constexpr std::uint64_t block_stride() const {
    return stride != 0 ? stride : block_bytes();
  }
  // Of a head's keys in a block.
  [[gnu::always_inline]] constexpr std::uint64_t keys_offset(BlockId block,
                                                             std::int32_t kv_head) const {
    return static_cast<std::uint64_t>(block) * block_stride() + kinds() * rows_bytes(kv_head);
  }
  // Of one number of a key, from keys_offset().
  [[gnu::always_inline]] constexpr std::uint64_t key_element_offset(std::int32_t dim,
                                                                    std::int32_t slot) const {
    return grouped_offset(dim, slot, key_group(), block_size);
  }
  // Of a head's values in a block.
  [[gnu::always_inline]] constexpr std::uint64_t values_offset(BlockId block,
                                                               std::int32_t kv_head) const {
    return keys_offset(block, kv_head) + rows_bytes(1);
  }
  // Of one number of a value, from values_offset().
  [[gnu::always_inline]] constexpr std::uint64_t value_element_offset(std::int32_t dim,
                                                                      std::int32_t slot) const {
    return grouped_offset(slot, dim, value_group(), row_dims());
  }
  // Of the scale of one token's key; only where has_scales().
  [[gnu::always_inline]] constexpr std::uint64_t key_scale_offset(BlockId block,
                                                                  std::int32_t kv_head,
                                                                  std::int32_t slot) const {
    return static_cast<std::uint64_t>(block) * block_stride() + kinds() * rows_bytes(num_kv_heads) +
           (static_cast<std::uint64_t>(kv_head) * static_cast<std::uint64_t>(block_size) +
            static_cast<std::uint64_t>(slot)) *
               sizeof(float);
  }
  [[gnu::always_inline]] constexpr std::uint64_t value_scale_offset(BlockId block,
                                                                    std::int32_t kv_head,
                                                                    std::int32_t slot) const {
    if (!has_values()) return key_scale_offset(block, kv_head, slot);
    return key_scale_offset(block, kv_head, slot) + static_cast<std::uint64_t>(num_kv_heads) *
                                                        static_cast<std::uint64_t>(block_size) *
                                                        sizeof(float);
  }

 private:
  // Keys alone, or values, too.
  [[gnu::always_inline]] constexpr std::uint64_t kinds() const { return has_values() ? 2 : 1; }
  [[gnu::always_inline]] constexpr std::int32_t padded(std::int32_t dims) const {
    const auto unit = static_cast<std::int32_t>(4 / dtype_bytes(dtype));
    return (dims + unit - 1) / unit * unit;
  }
  // In [][columns][group]: of row `row`, whose neighbours lie side by side with it.
  [[gnu::always_inline]] constexpr std::uint64_t grouped_offset(std::int32_t row,
                                                                std::int32_t column,
                                                                std::int32_t group,
                                                                std::int32_t columns) const {
    const std::int32_t element = (row / group * columns + column) * group + row % group;
    return static_cast<std::uint64_t>(element) * dtype_bytes(dtype);
  }
  // Of the keys, or of the values, of some heads in a block.
  [[gnu::always_inline]] constexpr std::uint64_t rows_bytes(std::int32_t heads) const {
    return static_cast<std::uint64_t>(heads) * static_cast<std::uint64_t>(block_size) * row_bytes();
  }
};

}  // namespace quire
