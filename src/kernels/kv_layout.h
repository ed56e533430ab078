// Where keys and values lie inside the KV memory of one layer. Blocks of `block_size` tokens follow
// each other; inside a block, first all keys and then all values, each as
// [num_kv_heads][block_size][head_dim]. The layout belongs to the kernels: nobody else computes
// these offsets. Always inlined, because files compiled with instruction-set flags use them: the
// linker could pick such a file's out-of-line copy for all.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "tensor/dtype.h"

namespace quire {

struct KvLayout {
  DType dtype = DType::kBF16;  // kF32 or kBF16
  std::int32_t block_size = 16;
  std::int32_t num_kv_heads = 1;
  std::int32_t head_dim = 64;

  [[gnu::always_inline]] std::uint64_t row_bytes() const {
    return static_cast<std::uint64_t>(head_dim) * dtype_bytes(dtype);
  }
  [[gnu::always_inline]] std::uint64_t block_bytes()
      const {  // keys and values of one block in one layer
    return 2ULL * static_cast<std::uint64_t>(num_kv_heads) *
           static_cast<std::uint64_t>(block_size) * row_bytes();
  }
  [[gnu::always_inline]] std::uint64_t key_offset(BlockId block, std::int32_t kv_head,
                                                  std::int32_t slot) const {
    return static_cast<std::uint64_t>(block) * block_bytes() +
           (static_cast<std::uint64_t>(kv_head) * static_cast<std::uint64_t>(block_size) +
            static_cast<std::uint64_t>(slot)) *
               row_bytes();
  }
  [[gnu::always_inline]] std::uint64_t value_offset(BlockId block, std::int32_t kv_head,
                                                    std::int32_t slot) const {
    return key_offset(block, kv_head, slot) + block_bytes() / 2;
  }
};

}  // namespace quire
