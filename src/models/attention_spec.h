// Attention of one layer as data.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/op_args.h"
#include "models/tensor_names.h"

namespace quire {

// RMS norms of queries and keys, before rotation but for the last.
enum class QueryKeyNorm : std::uint8_t {
  kNone,
  kHeads,         // of each head on its own
  kWhole,         // of all heads of a token together
  kRotatedHeads,  // of each head on its own, after rotation
};

inline constexpr std::int32_t kNoRope = -1;
inline constexpr std::int32_t kOwnKeys = -1;

// The heads of a layer's queries, and what the cache has of a token for them.
struct KvHeads {
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t latent_dims =
      0;  // the last numbers of a key that are its value; 0: values lie apart

  std::int64_t width() const { return (latent_dims == 0 ? 2 : 1) * num_kv_heads * head_dim; }

  bool operator==(const KvHeads&) const = default;
};

// Multi-head, grouped-query and multi-query attention differ only in num_kv_heads.
struct AttentionSpec {
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t inputs = 0;  // of the projections; 0: as many as a hidden state has numbers
  double scale = 0;         // of the scores; 1 / sqrt(head_dim) in most families
  std::int32_t window = 0;  // keys that a query sees, its own the last of them; 0: all
  std::int32_t chunk = 0;   // keys are seen from the last multiple of it on; 0: from the first
  double soft_cap = 0;      // scores are bent to stay below it, by tanh; 0: they are not
  std::vector<float> alibi_slopes;  // [num_heads]: times the distance, added to scores; or empty
  bool sinks = false;               // each head has one more key, a learned score without a value
  std::int32_t rope = 0;            // index into DecoderSpec::ropes, or kNoRope: heads do not turn
  // The layer whose keys and values this one reads, an earlier one with keys and values of its own;
  // or kOwnKeys.
  std::int32_t kv_layer = kOwnKeys;
  bool fused_projections = false;  // the checkpoint has queries, keys and values as one matrix
  bool fused_by_head = false;      // there the queries, the key and the value of a key-value head
                                   // follow each other, biases, too
  bool query_key_value_bias = false;  // one vector where the projections are one matrix
  double qkv_limit = 0;  // of the size of queries, keys and values as projected; 0: none
  bool output_bias = false;
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  bool values_are_keys = false;        // values are the keys' projections, before norm and rotation
  bool value_norm = false;             // RMS, of each head on its own, without weights
  bool query_key_norm_weights = true;  // of norms of single heads
  std::optional<PositionScale> query_scale = {};

  // Tokens that a later token may read, itself the last of them; 0: all before it.
  std::int32_t kept_tokens() const { return chunk > 0 ? chunk : window; }

  std::int64_t q_width() const { return num_heads * head_dim; }
  std::int64_t kv_width() const { return num_kv_heads * head_dim; }
  KvHeads kv_heads() const {
    return {.num_heads = num_heads, .num_kv_heads = num_kv_heads, .head_dim = head_dim};
  }
  std::int64_t max_inputs() const { return q_width() > inputs ? q_width() : inputs; }
  bool has_normed_values() const { return value_norm && kv_layer == kOwnKeys; }

  void list_tensors(std::int64_t hidden_size, std::vector<TensorShape>& tensors) const;

  // Sizes positive, within limits and consistent with each other; `where` names the source.
  // validate() looks at what families set last, too.
  Status validate_sizes(std::string_view where) const;
  Status validate(std::string_view where) const;

  bool operator==(const AttentionSpec&) const = default;
};

// The slopes of linear biases (Press et al. 2022, ALiBi): 2^(-max_bias i / n) for the first heads,
// n being the power of two from num_heads on; where that is more than num_heads, for even i first.
std::vector<float> alibi_slopes(std::int64_t num_heads, double max_bias);

}  // namespace quire
