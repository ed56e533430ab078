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
  // [num_tokens][all_heads() * head_dim]: queries, keys, and values where the layout has them.
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
  [[gnu::always_inline]] constexpr std::int32_t all_heads() const {
    return num_heads + (layout.has_values() ? 2 : 1) * layout.num_kv_heads;
  }
};

// xIELU (Huang and Schlag 2024), an activation with two slopes that are learned, one a layer:
// alpha_p x^2 + beta x above 0, alpha_n (exp(min(x, epsilon)) - 1 - x) + beta x elsewhere.
struct Xielu {
  float alpha_p = 0.0F;
  float alpha_n = 0.0F;
  float beta = 0.0F;
  float epsilon = 0.0F;  // just below 0

  bool operator==(const Xielu&) const = default;
};

// gpt-oss's gate: g sigmoid(alpha g) (u + 1), with g the gate, at most `limit`, and u the other
// projection, within [-limit, limit].
struct ClampedGate {
  float alpha = 0.0F;
  float limit = 0.0F;  // above 0

  bool operator==(const ClampedGate&) const = default;
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
  // Keys that a query sees: the last `window`, its own among them; or those from the last multiple
  // of `chunk` on up to its own; or, where both are 0, all up to its own.
  std::int32_t window = 0;
  std::int32_t chunk = 0;
  // What scores become, in this order, where these are there. Each is s * scale at first.
  float soft_cap = 0.0F;                // soft_cap * tanh(s / soft_cap); 0: no cap
  const float* alibi_slopes = nullptr;  // [num_heads]: s + slope * (the key's position - its own)
  // [num_heads]: the score of one more key, whose value is zero.
  const float* sinks = nullptr;
  KvLayout layout;
  const std::byte* kv = nullptr;  // KV memory of this layer
  // [num_seqs]: block ids of each sequence in this layer, the host's, which stay as they are until
  // the stream is synchronized; null: those of the step's batch. Sequences that share blocks there
  // share them here.
  const BlockId* const* block_tables = nullptr;
  float* out = nullptr;  // [num_tokens][num_heads * value_dims()]
};

// The largest number of a row.
struct RowBest {
  float value = 0.0F;
  std::int32_t index = 0;  // the lowest among equals
};

// The first key that a query at `position` sees. Always inlined: see kv_layout.h.
[[gnu::always_inline]] constexpr std::int32_t first_visible_key(const AttentionArgs& args,
                                                                std::int32_t position) {
  if (args.window > 0) return position >= args.window ? position - args.window + 1 : 0;
  return args.chunk > 0 ? position / args.chunk * args.chunk : 0;
}

// The first position whose query, and so that of every later one, sees no key before `key` > 0;
// beyond all positions if there is none.
[[gnu::always_inline]] constexpr std::int64_t first_position_from(const AttentionArgs& args,
                                                                  std::int64_t key) {
  if (args.window > 0) return key + args.window - 1;
  if (args.chunk > 0) return (key + args.chunk - 1) / args.chunk * args.chunk;
  return INT64_MAX;
}

// What is known of the weights of so many tokens, one after the other (RowKernels::token_weights),
// so that most of a vocabulary is not looked at again.
struct TokenBlock {
  static constexpr std::int64_t kTokens = 64;  // the last block of a vocabulary may have fewer
  static constexpr std::int64_t count(std::int64_t num_tokens) {
    return (num_tokens + kTokens - 1) / kTokens;
  }
  float sum = 0;
  float largest = 0;
};

}  // namespace quire
