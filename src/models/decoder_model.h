// A decoder with its weights: from token ids to hidden states, and from hidden states to logits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/status.h"
#include "models/loaded_matrices.h"
#include "models/packed_cache.h"
#include "models/spec.h"
#include "models/tensor_loader.h"
#include "nn/altup_block.h"
#include "nn/crossing.h"
#include "nn/decoder_stack.h"
#include "nn/eagle3_input.h"
#include "nn/norm.h"
#include "nn/per_layer_block.h"
#include "nn/state_input.h"
#include "weights/weight_source.h"

namespace quire {

class Model {
 public:
  // Packs every tensor of `source` that `spec` names. Errors, all kBadModel with the tensor's name:
  // one that is missing, of another shape than the spec says, not finite, or unknown to the family
  // (a bias that would silently be ignored). `max_positions` sizes the rotary table. What has been
  // read is released at once (WeightSource::release), so that the checkpoint and the packed weights
  // are never both in memory as a whole. Matrices come from `cache` where it has them, else it gets
  // them; borrowed during the call, may be null. Weights lie in the memory of `devices`, which must
  // outlive the model.
  static Result<std::unique_ptr<Model>> load(
      const DecoderSpec& spec, const WeightSource& source, std::int64_t max_positions,
      const ModelDevices& devices, const LoadProgress& progress,
      LoadQuantization quantization = LoadQuantization::kNone, PackedCache* cache = nullptr);

  // Layers that draft for `model`, with its embedding and, unless they have their own, its output
  // matrix, which must be as large as `spec` says: they are shared, and stay as they are when the
  // model's own are replaced.
  static Result<std::unique_ptr<Model>> load_for(const Model& model, const DecoderSpec& spec,
                                                 const WeightSource& source,
                                                 std::int64_t max_positions, Device& device);

  // This model with the tensors of `source`, its checkpoint but for `replaced`: the other matrices
  // are shared. Errors as load() and LoadedMatrices::without().
  Result<std::unique_ptr<Model>> with_tensors(const WeightSource& source,
                                              const std::unordered_set<std::string>& replaced,
                                              std::int64_t max_positions,
                                              const ModelDevices& devices,
                                              LoadQuantization quantization) const;
  const LoadedMatrices& matrices() const { return matrices_; }

  const DecoderSpec& spec() const { return spec_; }
  // In memory: packed matrices, vectors and rotary tables.
  const SplitBytes& weight_bytes() const { return weight_bytes_; }

  // Bytes of arena that forward() needs for a step of `rows` tokens, `hidden` not included.
  static std::uint64_t arena_bytes(const DecoderSpec& spec, std::int64_t rows);

  // hidden: [num_tokens][hidden_size], the last layer's output before the final norm. Of layers
  // that draft `ctx` has states.
  void forward(ForwardContext& ctx, float* hidden) const;

  // Of a model of which the host computes the first layers (LayerSplit), before forward(), which
  // then goes on with the others: computes them with `host` and `host_hidden`, which are the
  // host's, and brings to `hidden` and ctx.arena, which are the main device's, what the others
  // read. `crossing` has room for crossing_numbers(). An error of the host's device.
  Status forward_host_layers(ForwardContext& host, float* host_hidden, ForwardContext& ctx,
                             float* hidden, Crossing& crossing) const;
  // Numbers of a step of `rows` tokens that go from the host to the main device.
  static std::int64_t crossing_numbers(const DecoderSpec& spec, std::int64_t rows);

  // states[i] = final_norm(hidden[rows[i]]): [num_rows][hidden_size]. All of it, rows too, is in
  // the device's memory.
  void final_states(ForwardContext& ctx, const float* hidden, const std::int64_t* rows,
                    std::int64_t num_rows, float* states) const;

  // logits[i] = output(final_norm(hidden[rows[i]])), scaled and capped: [num_rows][vocab_size], and
  // the largest of each row: best[num_rows]. `normed` is scratch of [num_rows][hidden_size].
  void logits(ForwardContext& ctx, const float* hidden, const std::int64_t* rows,
              std::int64_t num_rows, float* normed, float* logits, RowBest* best) const;

 private:
  // What becomes of the embeddings before the first layer; empty where nothing does.
  struct Inputs {
    DeviceFloats positions;  // [max_positions][hidden_size]
    std::optional<Norm> norm;
    std::optional<PerLayerInputs> per_layer;
    std::optional<AltUpStreams> streams;
    std::optional<StateInput> states;
    std::optional<Eagle3Input> eagle3;
  };
  // Rows of the vocabulary.
  struct Vocabulary {
    PackedWeight embedding;
    PackedWeight output;  // empty where tied: the embedding serves
  };

  Model(DecoderSpec spec, Vocabulary vocabulary, Inputs inputs, DeviceFloats output_bias,
        Norm final_norm, DecoderStack stack, const SplitBytes& weight_bytes);

  static Result<Inputs> load_inputs(const DecoderSpec& spec, TensorLoader& loader,
                                    std::int64_t max_positions, Vocabulary& vocabulary);

  static Result<std::unique_ptr<Model>> load_besides(
      LoadedMatrices matrices, Vocabulary vocabulary, const DecoderSpec& spec,
      const WeightSource& source, std::int64_t max_positions, const ModelDevices& devices,
      const LoadProgress& progress, LoadQuantization quantization, PackedCache* cache);
  // What enters the first layer, from its embedding on.
  void embed(ForwardContext& ctx, float* hidden) const;
  // In ctx.arena: what else the layers read.
  void open(ForwardContext& ctx, float* hidden) const;
  // Once the layers are through.
  void merge_streams(ForwardContext& ctx, float* hidden) const;
  float embedding_scale(ActivationMode mode) const;

  DecoderSpec spec_;
  LoadedMatrices matrices_;
  Vocabulary vocabulary_;
  Inputs inputs_;
  DeviceFloats output_bias_;  // [vocab_size], or empty
  Norm final_norm_;
  DecoderStack stack_;
  SplitBytes weight_bytes_;
  std::int64_t host_layers_ = 0;
};

// What `load` would check, from headers alone: every tensor there, with the right shape.
Status check_tensors(const DecoderSpec& spec, const WeightSource& source);

// Quantizing at load wants matrices of F32, F16 or BF16: kConfig naming the first that is not.
Status check_quantization(const DecoderSpec& spec, const WeightSource& source,
                          LoadQuantization quantization);

}  // namespace quire
