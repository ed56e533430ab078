// What a decoder needs and what it computes, from its specification alone: no file of weights is
// needed, a config.json is enough. Everything is counted from the spec's own list of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/spec.h"
#include "plan/number_format.h"

namespace quire {

// Layers that keep the same tokens' keys and values, or a state.
struct KvFootprint {
  std::int32_t window = 0;  // tokens that are kept; 0: all
  double state_bytes = 0;   // of a sequence's state, in all these layers; 0: keys and values
  std::int64_t num_layers = 0;
  double bytes_per_token = 0;  // of all these layers, on one device
};

// Work of attention in layers of one kind: what a query does for each key that it sees.
struct KeyWork {
  std::int32_t window = 0;
  double flops_per_key = 0;  // of all these layers, on one device
};

// Layers [first, end).
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - first; }
};

struct FootprintOptions {
  NumberFormat format;       // of the matrices of layers
  double kv_bytes = 2;       // of a number in the KV cache
  int tp = 1;                // devices that the model is split over
  std::int64_t max_len = 0;  // of a sequence: windows of that length are none
  // Of a stage of a pipeline, its layers. The first has the embeddings, the last the output matrix,
  // and so both have the one matrix of a model that ties them.
  std::optional<LayerRange> stage = std::nullopt;
};

// Of one device of `tp`, of one stage if the options say which. Heads, MLPs, experts, embeddings
// and the output matrix are split; norms, routers and what makes latents are on each device, KV
// heads where there are fewer than devices.
struct ModelFootprint {
  std::uint64_t parameters = 0;         // of the whole model
  std::uint64_t active_parameters = 0;  // that a token meets: all but idle experts
  double weight_bytes = 0;
  double all_weight_bytes = 0;  // of the whole model or stage, on one device

  // What a step reads: everything but the embeddings and, of experts, those that some row goes to.
  double dense_bytes = 0;
  double expert_bytes = 0;   // of all experts
  double expert_share = 0;   // of the experts, those that one row goes to; 0: there are none
  double output_bytes = 0;   // of the matrix of logits, in dense_bytes too
  double flops_per_row = 0;  // of products with weights, but for the logits
  double flops_per_logits = 0;
  std::vector<KvFootprint> kv;
  std::vector<KeyWork> attention;

  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t vocab_size = 0;  // logits of a row; 0 for a stage that makes none
  std::int64_t widest_row = 0;  // numbers of a row that are alive at once in a layer

  // Of a sequence of so many tokens, in blocks of `block_size`.
  double kv_bytes(std::int64_t tokens, std::int64_t block_size) const;
  double kv_bytes_per_token() const;  // where no window has passed
  // Hidden states of a step's rows in 16 bits and logits in 32: an estimate, stated as one.
  double activation_bytes(std::int64_t rows, std::int64_t sequences) const;
};

// Numbers in all tensors that a checkpoint must have.
std::uint64_t count_parameters(const DecoderSpec& spec);

// kInvalidArgument where `tp` does not divide the heads, the KV heads (nor they it) or an MLP's
// width, naming both.
Result<ModelFootprint> model_footprint(const DecoderSpec& spec, const FootprintOptions& options);

}  // namespace quire
