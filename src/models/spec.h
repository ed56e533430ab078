// A decoder as data. A model family is one file that turns a `config.json` or GGUF keys into a
// DecoderSpec and says what its tensors are called; everything else reads the spec.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/op_args.h"
#include "kernels/sizing.h"
#include "models/attention_spec.h"
#include "models/latent_attention_spec.h"
#include "models/mlp_spec.h"
#include "models/moe_spec.h"
#include "models/short_conv_spec.h"
#include "models/tensor_names.h"
#include "nn/norm.h"
#include "nn/rope_scaling.h"

namespace quire {

// Where a layer norms: what goes into its two blocks, what comes out of them before it is added to
// the residual stream, or both ("sandwich norms").
enum class NormPlacement : std::uint8_t { kBefore, kAfter, kAround };

// The norms of a model are of one kind, but for those of queries and keys.
struct NormSpec {
  NormKind kind = NormKind::kRms;
  bool weight = true;  // layer norms before the blocks may have neither weights nor biases
  bool bias = false;   // of layer norms
  double epsilon = 0;
  double weight_offset = 0;  // added to the weights: 1 where they are stored around 0
};

// Embeddings of a token for each layer, which the layer adds at its end (nn/per_layer_block.h).
struct PerLayerSpec {
  std::int64_t width = 0;       // of one layer's; 0: there are none
  std::int64_t vocab_size = 0;  // tokens from there on have the first token's
  Activation activation = Activation::kGeluTanh;
};

// Streams of hidden states (nn/altup_block.h).
struct AltUpSpec {
  std::int64_t num_streams = 0;  // 0: tokens have none
  std::int64_t active = 0;       // the one that layers compute
  bool scaled = true;    // per-layer embeddings read that stream scaled by numbers of a layer
  bool stacked = false;  // the checkpoint has the streams' matrices as one tensor
};

// A layer: a mixer, in which tokens see each other, and a feed-forward, in which they do not. Each
// kind of block is a structure of options; another kind is one more alternative.
struct LayerSpec {
  std::variant<AttentionSpec, LatentAttentionSpec, ShortConvSpec> mixer;
  std::variant<GatedMlpSpec, SparseMlpSpec, PlainMlpSpec, MoeSpec> feed_forward;
  NormPlacement norms = NormPlacement::kBefore;
  bool parallel = false;         // both blocks read what the layer gets, through one norm
  bool two_norms = false;        // where they are parallel: each through its own
  bool input_norm = true;        // before the mixer, where norms are before the blocks
  bool joined_input = false;     // the mixer reads what the model joins (nn/eagle3_input.h)
  double residual_scale = 1;     // of what the blocks add to the residual stream
  std::int64_t laurel_rank = 0;  // of the residual beside the mixer (nn/laurel_block.h); 0: none
  bool output_scale = false;     // the layer's result is scaled by a number of the checkpoint

  AttentionSpec& attention() { return std::get<AttentionSpec>(mixer); }
  const AttentionSpec& attention() const { return std::get<AttentionSpec>(mixer); }
  // Null where the mixer is another.
  const AttentionSpec* plain_attention() const { return std::get_if<AttentionSpec>(&mixer); }
  const LatentAttentionSpec* latent_attention() const {
    return std::get_if<LatentAttentionSpec>(&mixer);
  }
  const ShortConvSpec* short_conv() const { return std::get_if<ShortConvSpec>(&mixer); }
  // Whether the mixer keeps a state of fixed size instead of keys and values: it has no heads.
  bool keeps_state() const { return short_conv() != nullptr; }
  KvHeads kv_heads() const;
  std::int32_t rope() const;  // index into DecoderSpec::ropes, or kNoRope
  // Of the MLP, or of one expert of a mixture.
  std::int64_t intermediate_size() const;
  // What the mixer leaves for later tokens: elements of a token, how many tokens' (0: all), and the
  // layer that has left it where this one reads another's, else kOwnKeys.
  std::int64_t kv_width() const { return kv_heads().width(); }
  std::int32_t kv_window() const;
  std::int32_t kv_layer() const {
    return plain_attention() == nullptr ? kOwnKeys : plain_attention()->kv_layer;
  }
  // Null where the feed-forward is no mixture of experts.
  const MoeSpec* moe() const { return std::get_if<MoeSpec>(&feed_forward); }

  bool operator==(const LayerSpec&) const = default;
};

// What is added to the embeddings by position.
enum class PositionKind : std::uint8_t {
  kNone,
  kLearned,     // a row of a tensor
  kSinusoidal,  // a row of sinusoidal_rows()
};

struct PositionSpec {
  PositionKind kind = PositionKind::kNone;
  std::int64_t offset = 0;  // the number of the row that position 0 has
};

// Layers that draft for another model: they read its states beside the tokens after them
// (nn/state_input.h), and have its embedding and its output matrix.
struct StateInputSpec {
  bool present = false;
  bool norms = false;  // of both, before they are joined
  bool bias = false;   // of the matrix that joins them
  // Of EAGLE-3 (nn/eagle3_input.h): numbers of a state, which is of several layers; 0: it is one
  // hidden state. Then they have an output matrix of their own.
  std::int64_t size = 0;
  bool add_to_normed = false;
};

// What the host's processor computes of a model whose other layers another device computes:
// --n-gpu-layers and --n-cpu-moe.
struct LayerSplit {
  std::int64_t host_layers = 0;         // the first ones, and what is before them
  std::int64_t host_expert_layers = 0;  // the mixtures' experts of the first so many layers

  bool empty() const { return host_layers == 0 && host_expert_layers == 0; }
  bool on_host(std::int64_t layer) const { return layer < host_layers; }
  bool experts_on_host(std::int64_t layer) const {
    return layer < host_layers || layer < host_expert_layers;
  }
  bool distant_experts(std::int64_t layer) const {
    return experts_on_host(layer) && !on_host(layer);
  }

  bool operator==(const LayerSplit&) const = default;
};

// In the memory of the device that computes a model, and in the host's for the part of the split.
struct SplitBytes {
  std::uint64_t main = 0;
  std::uint64_t host = 0;

  std::uint64_t total() const { return main + host; }
  bool operator==(const SplitBytes&) const = default;
};

struct DecoderSpec {
  std::string architecture;  // as the checkpoint calls it
  std::int64_t hidden_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;  // tokens that a sequence may reach
  double embedding_scale = 1;                // of the embeddings that enter the first layer
  // The reference rounds that scale to the type that it computes in: bfloat16 for checkpoints of
  // that type, unless float32 is asked for.
  bool round_embedding_scale = false;
  PositionSpec positions;
  bool embedding_norm = false;  // of what enters the first layer, with weights and, where others
                                // have them, biases
  double logit_scale = 1;
  double logit_soft_cap = 0;  // logits are bent to stay below it, by tanh; 0: they are not
  bool tie_word_embeddings = false;
  bool output_bias = false;  // of the logits
  PerLayerSpec per_layer;
  AltUpSpec altup;
  StateInputSpec state_input;
  bool final_norm = true;
  // The matrices of the layers are stored with a row for each input.
  bool transposed_matrices = false;
  NormSpec norm;
  RopeStyle rope_style = RopeStyle::kHalves;
  std::vector<RopeSpec> ropes;  // the kinds of rotary positions that layers use
  std::vector<LayerSpec> layers;
  TensorNames names;
  // What the names of tensors begin with that are there and not read: of layers that draft tokens,
  // keys of layers that read those of others.
  std::vector<std::string> unread_tensors;
  // Of the first of these: how many layers behind the last draft tokens (models/draft_layers.h).
  std::int64_t num_draft_layers = 0;
  bool text_part = false;            // of a checkpoint of more than text: models/text_part.h
  bool tied_without_output = false;  // there: embeddings are tied where no output matrix is

  std::int64_t num_layers() const { return static_cast<std::int64_t>(layers.size()); }

  // Numbers of a state of the model that is drafted for.
  std::int64_t state_size() const { return state_input.size == 0 ? hidden_size : state_input.size; }
  // Whether it has an output matrix of its own, which is not the embedding.
  bool has_output() const {
    return !tie_word_embeddings && (!state_input.present || state_input.size != 0);
  }

  // Of the first layer, where that is attention, and not latent.
  const AttentionSpec& attention() const { return layers.front().attention(); }

  // Of the first layer that has heads.
  KvHeads kv_heads() const;

  // Bytes of a layer's state of one sequence; 0 where it keeps none.
  std::uint64_t state_bytes(std::int64_t layer) const;

  // The most inputs that a product of any layer has.
  std::int64_t max_product_inputs() const;

  // Experts and their sizes, the largest of all layers; none where no layer has a mixture.
  ExpertSizes experts() const;

  // Products of single heads, the largest of all layers; none where no attention is latent.
  HeadSizes head_products() const;

  // Weights that a token does not meet, because they are those of experts that it does not go to.
  std::uint64_t idle_weights() const;

  // Whether a tensor is one of those that are not read.
  bool is_unread(std::string_view name) const;

  // Whose weights the final norm has.
  TensorRole final_norm_role() const {
    return state_input.present ? TensorRole::kDraftNorm : TensorRole::kFinalNorm;
  }

  // What a checkpoint must have: outside of the layers, and of one layer.
  std::vector<TensorShape> tensors() const;
  std::vector<TensorShape> layer_tensors(std::int64_t layer) const;

  // Elements of keys and values that one token leaves in the cache, over all layers.
  std::int64_t kv_elements_per_token() const;

  // Bytes of what is computed for a model instead of read, or kept as numbers, for sequences of
  // up to `max_positions` tokens: rotary tables, rows of positions, slopes.
  SplitBytes computed_bytes(std::int64_t max_positions, const LayerSplit& split = {}) const;

  // All sizes positive, within limits and consistent with each other; `where` names the source.
  Status validate(std::string_view where) const;

 private:
  void list_state_input(std::vector<TensorShape>& tensors) const;
  Status validate_per_layer(std::string_view where) const;
  Status validate_streams(std::string_view where) const;
};

// A decoder as families read it: all but the layers, and what most layers have in common.
struct DecoderDraft {
  DecoderSpec spec;
  std::int64_t num_layers = 0;
  AttentionSpec attention;
  std::int64_t rotary_dim = 0;  // the first dimensions of a head, which turn
  GatedMlpSpec mlp;

  // The MLP without its gate.
  PlainMlpSpec plain_mlp(bool bias) const {
    return {.intermediate_size = mlp.intermediate_size, .activation = mlp.activation, .bias = bias};
  }

  // What does not depend on ropes, scales and layers; before anything is made of the sizes.
  Status validate_sizes(std::string_view where) const;

  // spec.layers: num_layers of them like `layer`. Families then change what differs.
  void make_layers(const LayerSpec& layer);
};

}  // namespace quire
