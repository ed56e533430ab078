// Attention of one layer as data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/tensor_names.h"

namespace quire {

// Multi-head, grouped-query and multi-query attention differ only in num_kv_heads.
struct AttentionSpec {
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  double scale = 0;         // of the scores; 1 / sqrt(head_dim) in most families
  std::int32_t window = 0;  // keys that a query sees, its own the last of them; 0: all
  std::int32_t rope = 0;    // index into DecoderSpec::ropes
  bool query_key_value_bias = false;
  bool output_bias = false;
  bool query_key_norm = false;  // RMS norm of each query and key head, before rotation

  std::int64_t q_width() const { return num_heads * head_dim; }
  std::int64_t kv_width() const { return num_kv_heads * head_dim; }

  void list_tensors(std::int64_t hidden_size, std::vector<TensorShape>& tensors) const;

  // Sizes positive, within limits and consistent with each other; `where` names the source.
  // validate() looks at what families set last, too.
  Status validate_sizes(std::string_view where) const;
  Status validate(std::string_view where) const;

  bool operator==(const AttentionSpec&) const = default;
};

}  // namespace quire
