// Loading of a decoder: which tensors there are, their shapes, and packing them.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "models/decoder_model.h"
#include "models/load_blocks.h"
#include "models/tensor_loader.h"
#include "nn/sinusoids.h"

namespace quire {
namespace {

// Calls check(name, shape) for every tensor that must be there, until one call returns an error: a
// configuration may say that there are far more than a checkpoint has.
template <typename Check>
Status for_each_expected(const DecoderSpec& spec, const Check& check) {
  const auto check_all = [&](const std::vector<TensorShape>& tensors, std::int64_t layer) {
    for (const TensorShape& tensor : tensors) {
      for (std::int64_t expert = 0; expert < tensor.num_experts; ++expert) {
        QUIRE_RETURN_IF_ERROR(check(spec.names.name(tensor.role, layer, expert), tensor.sizes));
      }
    }
    return Status();
  };
  QUIRE_RETURN_IF_ERROR(check_all(spec.tensors(), 0));
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    QUIRE_RETURN_IF_ERROR(check_all(spec.layer_tensors(layer), layer));
  }
  return {};
}

// GPTQ's exporters give every matrix a bias, of zeros where the model has none.
bool is_zero_bias(const WeightSource& source, const TensorInfo& tensor) {
  constexpr std::string_view kBias = ".bias";
  if (!tensor.name.ends_with(kBias)) return false;
  const TensorInfo* matrix = source.find(
      fmt::format("{}.weight", tensor.name.substr(0, tensor.name.size() - kBias.size())));
  return matrix != nullptr && matrix->parts_bytes > 0 &&
         std::ranges::all_of(tensor.data, [](std::uint8_t byte) { return byte == 0; });
}

// A matrix of one row, which GGUF has as a vector.
bool is_row(const TensorInfo& tensor, const std::vector<std::int64_t>& shape) {
  return shape.size() == 2 && shape[0] == 1 && tensor.shape.size() == 1 &&
         tensor.shape[0] == shape[1];
}

// Tensors that some exporters write and that carry nothing a model computes with.
bool is_ignorable(const DecoderSpec& spec, const TensorInfo& tensor) {
  const std::string_view name = tensor.name;
  if (name.ends_with(".rotary_emb.inv_freq")) return true;  // recomputed from rope_theta
  if (name.ends_with(".masked_bias")) return true;          // what masked scores once were
  if (spec.is_unread(name)) return true;
  // Which keys a query sees, as a matrix of the longest sequence.
  if (tensor.shape.size() == 4 &&
      (name.ends_with(".attn.bias") || name.ends_with(".attention.bias"))) {
    return true;
  }
  if (name.ends_with(".embed_positions.weights")) {  // recomputed
    return spec.positions.kind == PositionKind::kSinusoidal;
  }
  // Read with the configuration, into the spec.
  const auto is_scaled = [&](RopeScaling scaling) {
    return !spec.ropes.empty() && spec.ropes[0].scaling == scaling;
  };
  if (name == "rope_freqs.weight") return is_scaled(RopeScaling::kFactors);
  if (name == "rope_factors_long.weight" || name == "rope_factors_short.weight") {
    return is_scaled(RopeScaling::kLongRope);
  }
  return spec.tie_word_embeddings && name == spec.names.name(TensorRole::kOutput);
}

// The block that the specification `spec`, a variant, contains.
template <typename Block, typename Spec>
Result<Block> load_any(const Spec& spec, TensorLoader& loader, std::int64_t index) {
  const auto load = [&](const auto& options) -> Result<Block> {
    QUIRE_ASSIGN_OR_RETURN(auto block, load_block(options, loader, index));
    return Block(std::move(block));
  };
  return std::visit(load, spec);
}

// What a token's vectors for all layers are made with, where layers have them.
Result<std::optional<PerLayerInputs>> load_per_layer_inputs(const DecoderSpec& spec,
                                                            TensorLoader& loader) {
  if (spec.per_layer.width == 0) return std::optional<PerLayerInputs>();
  using enum TensorRole;
  PerLayerInputWeights weights;
  QUIRE_ASSIGN_OR_RETURN(weights.embedding, loader.vocabulary(kPerLayerEmbedding, spec.vocab_size));
  QUIRE_ASSIGN_OR_RETURN(weights.projection, loader.matrix(kPerLayerProjection));
  QUIRE_ASSIGN_OR_RETURN(weights.norm, loader.norm(kPerLayerProjectionNorm, {}));
  const double embedding_scale = std::sqrt(static_cast<double>(spec.per_layer.width));
  const double projection_scale = 1.0 / std::sqrt(static_cast<double>(spec.hidden_size));
  return std::optional(PerLayerInputs(spec.num_layers(), static_cast<float>(embedding_scale),
                                      static_cast<float>(projection_scale), std::move(weights)));
}

// Where tokens have streams.
Result<std::optional<AltUpStreams>> load_streams(const DecoderSpec& spec, TensorLoader& loader) {
  if (spec.altup.num_streams == 0) return std::optional<AltUpStreams>();
  using enum TensorRole;
  const std::int64_t others = spec.altup.num_streams - 1;
  AltUpStreamWeights weights;
  loader.use(loader.devices().of_inputs());
  QUIRE_ASSIGN_OR_RETURN(weights.projections, loader.experts(kAltUpProjections, others, 0));
  loader.use(*loader.devices().main);
  QUIRE_ASSIGN_OR_RETURN(weights.unembeddings, loader.experts(kAltUpUnembeddings, others, 0));
  return std::optional(AltUpStreams(std::move(weights)));
}

// Of layers that draft for another model.
Result<std::optional<StateInput>> load_state_input(TensorLoader& loader) {
  using enum TensorRole;
  StateInputWeights weights;
  QUIRE_ASSIGN_OR_RETURN(weights.projection, loader.matrix(kStateProjection));
  QUIRE_ASSIGN_OR_RETURN(weights.bias, loader.vector({kStateProjectionBias}));
  QUIRE_ASSIGN_OR_RETURN(weights.token_norm, loader.norm(kStateTokenNorm, {}));
  QUIRE_ASSIGN_OR_RETURN(weights.state_norm, loader.norm(kStateNorm, {}));
  return std::optional(StateInput(std::move(weights)));
}

Result<std::optional<Eagle3Input>> load_eagle3_input(TensorLoader& loader) {
  using enum TensorRole;
  Eagle3InputWeights weights;
  QUIRE_ASSIGN_OR_RETURN(weights.projection, loader.matrix(kStateProjection));
  QUIRE_ASSIGN_OR_RETURN(weights.token_norm, loader.norm(kStateTokenNorm, {}));
  QUIRE_ASSIGN_OR_RETURN(weights.state_norm, loader.norm(kStateNorm, {}));
  return std::optional(Eagle3Input(std::move(weights), loader.spec().state_input.add_to_normed));
}

Result<LayerExtras> load_extras(const DecoderSpec& spec, TensorLoader& loader, std::int64_t index) {
  const LayerSpec& layer = spec.layers[static_cast<std::size_t>(index)];
  LayerExtras extras;
  if (spec.altup.num_streams != 0) {
    QUIRE_ASSIGN_OR_RETURN(extras.altup, load_block(spec.altup, loader, index));
  }
  if (layer.laurel_rank != 0) {
    QUIRE_ASSIGN_OR_RETURN(extras.laurel, load_laurel(loader, index));
  }
  if (spec.per_layer.width != 0) {
    QUIRE_ASSIGN_OR_RETURN(extras.per_layer, load_block(spec.per_layer, loader, index));
  }
  return extras;
}

Result<DecoderLayer> load_layer(const DecoderSpec& spec, TensorLoader& loader, std::int64_t index) {
  const LayerSpec& layer = spec.layers[static_cast<std::size_t>(index)];
  using enum TensorRole;
  LayerNorms norms;
  QUIRE_ASSIGN_OR_RETURN(norms.mixer_input, loader.norm(kInputNorm, {kInputNormBias}, index));
  QUIRE_ASSIGN_OR_RETURN(auto mixer, load_any<DecoderLayer::Mixer>(layer.mixer, loader, index));
  QUIRE_ASSIGN_OR_RETURN(norms.mixer_output, loader.norm(kAttentionOutputNorm, {}, index));
  QUIRE_ASSIGN_OR_RETURN(norms.feed_forward_input, loader.norm(kMlpNorm, {kMlpNormBias}, index));
  QUIRE_ASSIGN_OR_RETURN(auto feed_forward,
                         load_any<DecoderLayer::FeedForward>(layer.feed_forward, loader, index));
  QUIRE_ASSIGN_OR_RETURN(norms.feed_forward_output, loader.norm(kMlpOutputNorm, {}, index));
  LayerShape shape = {.hidden_size = spec.hidden_size,
                      .parallel = layer.parallel,
                      .joined_input = layer.joined_input,
                      .residual_scale = static_cast<float>(layer.residual_scale)};
  const std::int32_t rope = layer.rope();
  if (rope != kNoRope) {
    shape.rotary = static_cast<std::size_t>(rope);
    if (loader.devices().split.on_host(index)) *shape.rotary += spec.ropes.size();
  }
  if (layer.output_scale) {
    QUIRE_ASSIGN_OR_RETURN(shape.output_scale, loader.number(kLayerScale, index));
  }
  QUIRE_ASSIGN_OR_RETURN(auto extras, load_extras(spec, loader, index));
  return DecoderLayer(shape, std::move(norms), std::move(mixer), std::move(feed_forward),
                      std::move(extras));
}

}  // namespace

Status check_tensors(const DecoderSpec& spec, const WeightSource& source) {
  std::unordered_set<std::string> known;
  const auto check = [&](std::string name, const std::vector<std::int64_t>& shape) -> Status {
    const TensorInfo* tensor = source.find(name);
    if (tensor == nullptr) {
      const std::string where =
          source.tensors().empty() ? "the checkpoint" : source.tensors()[0].file;
      return Status::bad_model(fmt::format("{}: tensor {} is missing", where, name),
                               "fetch the model again; all shards must be there");
    }
    if (tensor->shape != shape && !is_row(*tensor, shape)) {
      return Status::bad_model(
          fmt::format("{}: tensor {} has shape [{}]; the configuration says [{}]", tensor->file,
                      printable(tensor->name), fmt::join(tensor->shape, ", "),
                      fmt::join(shape, ", ")),
          "configuration and weights do not belong together");
    }
    known.insert(std::move(name));
    return {};
  };
  QUIRE_RETURN_IF_ERROR(for_each_expected(spec, check));
  for (const TensorInfo& tensor : source.tensors()) {
    if (!known.contains(tensor.name) && !is_ignorable(spec, tensor) &&
        !is_zero_bias(source, tensor)) {
      return Status::bad_model(
          fmt::format("{}: tensor {} is not part of architecture {}", tensor.file,
                      printable(tensor.name), spec.architecture),
          "ignoring it would change results; the model needs a family that Quire does not have");
    }
  }
  return {};
}

Status check_quantization(const DecoderSpec& spec, const WeightSource& source,
                          LoadQuantization quantization) {
  if (quantization == LoadQuantization::kNone) return {};
  const auto check = [&](const std::string& name, const std::vector<std::int64_t>&) -> Status {
    const TensorInfo* tensor = source.find(name);
    if (tensor == nullptr || tensor->shape.size() < 2 ||
        !is_quantized(layout_of(tensor->encoding))) {
      return {};
    }
    return Status::config(
        fmt::format("--quantization {}: {}: tensor {} is quantized already, as {}",
                    load_quantization_name(quantization), tensor->file, tensor->name,
                    tensor->format_name()),
        "leave the flag out, or use a checkpoint of F32, F16 or BF16");
  };
  return for_each_expected(spec, check);
}

Result<std::unique_ptr<Model>> Model::load(const DecoderSpec& spec, const WeightSource& source,
                                           std::int64_t max_positions, const ModelDevices& devices,
                                           const LoadProgress& progress,
                                           LoadQuantization quantization, PackedCache* cache) {
  return load_besides(LoadedMatrices(), {}, spec, source, max_positions, devices, progress,
                      quantization, cache);
}

Result<std::unique_ptr<Model>> Model::load_for(const Model& model, const DecoderSpec& spec,
                                               const WeightSource& source,
                                               std::int64_t max_positions, Device& device) {
  const auto matrix = [&](TensorRole role) {
    return model.matrices_.find(model.spec_.names.name(role)).value_or(PackedWeight());
  };
  Vocabulary vocabulary = {matrix(TensorRole::kEmbedding), {}};
  if (!model.spec_.tie_word_embeddings) vocabulary.output = matrix(TensorRole::kOutput);
  return load_besides(LoadedMatrices(), std::move(vocabulary), spec, source, max_positions, device,
                      {}, LoadQuantization::kNone, nullptr);
}

Result<std::unique_ptr<Model>> Model::with_tensors(const WeightSource& source,
                                                   const std::unordered_set<std::string>& replaced,
                                                   std::int64_t max_positions,
                                                   const ModelDevices& devices,
                                                   LoadQuantization quantization) const {
  QUIRE_ASSIGN_OR_RETURN(auto matrices, matrices_.without(replaced));
  return load_besides(std::move(matrices), {}, spec_, source, max_positions, devices, {},
                      quantization, nullptr);
}

// What is before the layers; the vocabulary's embedding, unless others have it.
Result<Model::Inputs> Model::load_inputs(const DecoderSpec& spec, TensorLoader& loader,
                                         std::int64_t max_positions, Vocabulary& vocabulary) {
  loader.use(loader.devices().of_inputs());
  Inputs inputs;
  if (spec.state_input.size != 0) {
    QUIRE_ASSIGN_OR_RETURN(inputs.eagle3, load_eagle3_input(loader));
  } else if (spec.state_input.present) {
    QUIRE_ASSIGN_OR_RETURN(inputs.states, load_state_input(loader));
  } else {
    QUIRE_ASSIGN_OR_RETURN(vocabulary.embedding, loader.vocabulary(TensorRole::kEmbedding));
  }
  if (spec.positions.kind == PositionKind::kLearned) {
    QUIRE_ASSIGN_OR_RETURN(inputs.positions, loader.rows(TensorRole::kPositions,
                                                         spec.positions.offset, max_positions));
  } else if (spec.positions.kind == PositionKind::kSinusoidal) {
    QUIRE_ASSIGN_OR_RETURN(
        inputs.positions,
        loader.upload(sinusoidal_rows(max_positions, spec.hidden_size, spec.positions.offset)));
  }
  if (spec.embedding_norm) {
    QUIRE_ASSIGN_OR_RETURN(
        inputs.norm, loader.norm(TensorRole::kEmbeddingNorm, {TensorRole::kEmbeddingNormBias}));
  }
  QUIRE_ASSIGN_OR_RETURN(inputs.per_layer, load_per_layer_inputs(spec, loader));
  QUIRE_ASSIGN_OR_RETURN(inputs.streams, load_streams(spec, loader));
  return inputs;
}

Result<std::unique_ptr<Model>> Model::load_besides(
    LoadedMatrices matrices, Vocabulary vocabulary, const DecoderSpec& spec,
    const WeightSource& source, std::int64_t max_positions, const ModelDevices& devices,
    const LoadProgress& progress, LoadQuantization quantization, PackedCache* cache) {
  QUIRE_RETURN_IF_ERROR(check_tensors(spec, source));
  QUIRE_RETURN_IF_ERROR(check_quantization(spec, source, quantization));
  TensorLoader loader(spec, source, devices, progress, quantization, cache, matrices);
  QUIRE_ASSIGN_OR_RETURN(Inputs inputs, load_inputs(spec, loader, max_positions, vocabulary));
  loader.use(*devices.main);
  if (spec.has_output()) {
    QUIRE_ASSIGN_OR_RETURN(vocabulary.output, loader.vocabulary(TensorRole::kOutput));
  } else if (devices.split.host_layers > 0) {  // of the embedding, which the host has
    QUIRE_ASSIGN_OR_RETURN(vocabulary.output, loader.vocabulary(TensorRole::kEmbedding));
  }
  QUIRE_ASSIGN_OR_RETURN(auto output_bias, loader.vector({TensorRole::kOutputBias}));
  QUIRE_ASSIGN_OR_RETURN(auto final_norm,
                         loader.norm(spec.final_norm_role(), {TensorRole::kFinalNormBias}));
  std::vector<DecoderLayer> layers;
  layers.reserve(spec.layers.size());
  for (std::int64_t i = 0; i < spec.num_layers(); ++i) {
    loader.use(devices.of_layer(i));
    QUIRE_ASSIGN_OR_RETURN(auto layer, load_layer(spec, loader, i));
    layers.push_back(std::move(layer));
  }
  // Of the main device, then, where layers are the host's, of the host.
  std::vector<RotaryTable> rotaries;
  const auto add_rotaries = [&](Device& device) -> Status {
    for (const RopeSpec& rope : spec.ropes) {
      QUIRE_ASSIGN_OR_RETURN(auto values, device.upload(rotary_values(max_positions, rope)));
      rotaries.emplace_back(rope.rotary_dim, spec.rope_style, std::move(values));
    }
    return {};
  };
  QUIRE_RETURN_IF_ERROR(add_rotaries(*devices.main));
  if (devices.split.host_layers > 0) QUIRE_RETURN_IF_ERROR(add_rotaries(*devices.host));
  const SplitBytes computed = spec.computed_bytes(max_positions, devices.split);
  const SplitBytes bytes = {loader.bytes() + computed.main, loader.host_bytes() + computed.host};
  std::unique_ptr<Model> model(new Model(
      spec, std::move(vocabulary), std::move(inputs), std::move(output_bias), std::move(final_norm),
      DecoderStack(std::move(rotaries), std::move(layers)), bytes));
  model->matrices_ = std::move(matrices);
  model->host_layers_ = devices.split.host_layers;
  return model;
}

}  // namespace quire
