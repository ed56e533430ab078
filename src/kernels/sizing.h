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

// What attention's memory depends on; where layers differ, the largest of each.
struct AttentionSizes {
  std::int32_t head_dim = 0;
  std::int32_t heads_per_kv_head = 1;
  std::int64_t max_seq_len = 0;
  std::int32_t num_kv_heads = 1;
  std::int64_t max_num_seqs = 1;
};

// Scratch of one worker for attention(): queries, scores, sums and panels of keys and values.
std::uint64_t attention_scratch_bytes(std::int32_t head_dim, std::int32_t heads_per_kv_head);

// Scratch of all workers, the partial results of long sequences that several share, and those of
// prefixes that sequences share.
std::uint64_t attention_workspace_bytes(const AttentionSizes& attention, int num_threads);

// What the memory of a mixture of experts depends on; none where there are no experts.
struct ExpertSizes {
  std::int64_t num_experts = 0;
  std::int64_t experts_per_row = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;

  bool operator==(const ExpertSizes&) const = default;
};

// Workspace bytes of expert_mlp().
std::uint64_t expert_workspace_bytes(std::int64_t max_rows, const ExpertSizes& experts,
                                     int num_threads);

// What the memory of products of single heads depends on; none where there are none.
struct HeadSizes {
  std::int64_t num_heads = 0;
  std::int64_t max_inputs = 0;  // of a head's product

  bool operator==(const HeadSizes&) const = default;
};

// Workspace bytes of matmul_by_head().
std::uint64_t head_products_workspace_bytes(std::int64_t max_rows, const HeadSizes& heads);

// Workspace bytes that the ops of a step of at most `max_rows` rows need: the larger of what
// products take (rounded rows of at most `max_inputs` inputs, scratch of gated ones, counts of
// heads) and attention's.
std::uint64_t workspace_bytes(std::int64_t max_rows, std::int64_t max_inputs,
                              const AttentionSizes& attention, int num_threads);

// What the steps of a stream (kernels/device.h) are at most.
struct StreamLimits {
  std::int64_t max_rows = 0;    // of an op
  std::int64_t max_inputs = 0;  // of a product
  AttentionSizes attention = {};
  std::int64_t vocab_size = 0;
  std::int64_t max_sampled_rows = 0;  // whose tokens are chosen or scored at once
  ExpertSizes experts = {};
  HeadSizes head_products = {};
  // What is downloaded in the middle of a step, for another device, until it is synchronized.
  std::uint64_t downloaded_bytes = 0;
};

// Bytes that a stream needs for itself.
struct StreamMemory {
  std::uint64_t workspace = 0;  // scratch of the kernels
  std::uint64_t sampling = 0;   // scratch for choosing tokens
  std::uint64_t downloads = 0;  // the host's, for StreamLimits::downloaded_bytes
};

// Of the CPU's with `num_threads` threads.
StreamMemory cpu_stream_memory(const StreamLimits& limits, int num_threads);

}  // namespace quire
