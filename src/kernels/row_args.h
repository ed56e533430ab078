// The arguments of ops that instruction-set levels see too: plain data, so that a file compiled
// with instruction-set flags includes no code of the baseline.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kv_layout.h"

namespace quire {

// Which dimensions of a head form a rotated pair.
enum class RopeStyle : std::uint8_t {
  kHalves,       // (i, i + rotary_dim/2), as in Hugging Face checkpoints
  kInterleaved,  // (2i, 2i + 1), as in GGUF files of the llama architecture
};

// What becomes of projected heads: queries and keys are normed, where there are weights for it, and
// rotated in place, or the other way round; then keys and values are stored in the cache.
struct RopeAndCacheArgs {
  // [num_tokens][(num_heads + 2 * num_kv_heads) * head_dim]: queries, keys, values.
  float* qkv = nullptr;
  std::int64_t num_tokens = 0;
  std::int32_t num_heads = 0;
  const std::int32_t* positions = nullptr;     // [num_tokens]
  const std::int64_t* slot_mapping = nullptr;  // [num_tokens]: block_id * block_size + offset
  // cos and sin of position p: rope_table + p * rotary_dim, first rotary_dim/2 cosines, then sines.
  const float* rope_table = nullptr;
  std::int32_t rotary_dim = 0;
  RopeStyle style = RopeStyle::kHalves;
  const float* q_norm = nullptr;  // [head_dim], of rms_norm() over each query head; null: none
  const float* k_norm = nullptr;  // the same of each key head
  float norm_epsilon = 0.0F;
  bool norms_after_rope = false;  // what is rotated is normed, else what is normed is rotated
  KvLayout layout;
  std::byte* kv = nullptr;  // KV memory of this layer

  // Queries, keys and values.
  [[gnu::always_inline]] std::int32_t all_heads() const {
    return num_heads + 2 * layout.num_kv_heads;
  }
};

// Some heads of some tokens. Heads are counted as they lie in a row: queries, keys, values.
struct HeadTile {
  std::int64_t token_begin = 0;
  std::int64_t token_end = 0;
  std::int32_t head_begin = 0;
  std::int32_t head_end = 0;
};

// Arguments of attention().
struct AttentionArgs {
  const float* q = nullptr;  // [num_tokens][q_stride], heads of head_dim side by side
  std::int64_t q_stride = 0;
  std::int32_t num_heads = 0;
  float scale = 1.0F;  // of the scores, before softmax
  std::int32_t window =
      0;  // keys that a query sees, its own the last of them; 0: all up to its own
  KvLayout layout;
  const std::byte* kv = nullptr;  // KV memory of this layer
  // [num_seqs]: block ids of each sequence in this layer, the host's, which stay as they are until
  // the stream is synchronized; null: those of the step's batch. Sequences that share blocks there
  // share them here.
  const BlockId* const* block_tables = nullptr;
  float* out = nullptr;  // [num_tokens][num_heads * head_dim]
};

// The largest number of a row.
struct RowBest {
  float value = 0.0F;
  std::int32_t index = 0;  // the lowest among equals
};

// The first key that a query at `position` sees. Always inlined: see kv_layout.h.
[[gnu::always_inline]] inline std::int32_t first_visible_key(std::int32_t window,
                                                             std::int32_t position) {
  return window > 0 && position >= window ? position - window + 1 : 0;
}

}  // namespace quire
