// Sizes of workspaces and packed weights, known before anything is loaded.
#pragma once

#include <cstdint>

#include "quant/encoding.h"
#include "quant/load_quantization.h"

namespace quire {

// A matrix of `outputs` x `inputs` weights, packed from this encoding. `vocabulary`: embeddings or
// logits (PackOptions).
std::uint64_t packed_weight_bytes(Encoding encoding, std::int64_t outputs, std::int64_t inputs,
                                  LoadQuantization quantization, bool vocabulary);

// Scratch of one worker for attention(): queries, sums and a tile of keys and values.
std::uint64_t attention_scratch_bytes(std::int32_t head_dim, std::int32_t heads_per_kv_head);

// Workspace bytes that the ops of a step of at most `max_rows` rows need: the larger of matmul's
// (int8 rows of at most `max_inputs` inputs) and attention's (scratch of each worker).
std::uint64_t workspace_bytes(std::int64_t max_rows, std::int64_t max_inputs, std::int32_t head_dim,
                              std::int32_t heads_per_kv_head, int num_threads);

}  // namespace quire
