// Loading of a decoder: which tensors there are, their shapes, and packing them.
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "models/decoder_model.h"

namespace quire {
namespace {

using Shape = std::vector<std::int64_t>;

// A tensor that must be there, and its shape.
struct ExpectedTensor {
  std::string name;
  Shape shape;
};

Shape expected_shape(const DecoderSpec& spec, TensorRole role) {
  switch (role) {
    case TensorRole::kEmbedding:
    case TensorRole::kOutput:
      return {spec.vocab_size, spec.hidden_size};
    case TensorRole::kFinalNorm:
    case TensorRole::kInputNorm:
    case TensorRole::kAttentionBias:
    case TensorRole::kAttentionOutputNorm:
    case TensorRole::kMlpNorm:
    case TensorRole::kDownBias:
    case TensorRole::kMlpOutputNorm:
      return {spec.hidden_size};
    case TensorRole::kQuery:
      return {spec.q_width(), spec.hidden_size};
    case TensorRole::kKey:
    case TensorRole::kValue:
      return {spec.kv_width(), spec.hidden_size};
    case TensorRole::kQueryBias:
      return {spec.q_width()};
    case TensorRole::kKeyBias:
    case TensorRole::kValueBias:
      return {spec.kv_width()};
    case TensorRole::kQueryNorm:
    case TensorRole::kKeyNorm:
      return {spec.head_dim};
    case TensorRole::kAttentionOutput:
      return {spec.hidden_size, spec.q_width()};
    case TensorRole::kGate:
    case TensorRole::kUp:
      return {spec.intermediate_size, spec.hidden_size};
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
      return {spec.intermediate_size};
    case TensorRole::kDown:
      return {spec.hidden_size, spec.intermediate_size};
  }
  return {};
}

std::vector<ExpectedTensor> expected_tensors(const DecoderSpec& spec) {
  std::vector<ExpectedTensor> expected;
  for (int i = 0; i < kNumTensorRoles; ++i) {
    const auto role = static_cast<TensorRole>(i);
    if (!spec.has(role)) continue;
    const std::int64_t layers = role <= TensorRole::kOutput ? 1 : spec.num_layers;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      expected.push_back({spec.names->name(role, layer), expected_shape(spec, role)});
    }
  }
  return expected;
}

// Tensors that some exporters write and that carry nothing a model computes with.
bool is_ignorable(const DecoderSpec& spec, std::string_view name) {
  if (name.ends_with(".rotary_emb.inv_freq")) return true;  // recomputed from rope_theta
  // Read with the configuration, into the spec.
  if (name == "rope_freqs.weight") return spec.ropes[0].scaling == RopeScaling::kFactors;
  return spec.tie_word_embeddings && name == spec.names->name(TensorRole::kOutput);
}

// Reads tensors by role and reports progress.
class Loader {
 public:
  Loader(const DecoderSpec& spec, const WeightSource& source, ThreadPool& pool,
         const LoadProgress& progress, LoadQuantization quantization, PackedCache* cache)
      : spec_(spec), source_(source), pool_(pool), progress_(progress), cache_(cache) {
    options_.quantization = quantization;
    options_.done = [&source](const std::uint8_t* data, std::uint64_t bytes) {
      source.release({data, bytes});
    };
    for (const TensorInfo& tensor : source.tensors()) total_ += tensor.data.size();
  }

  std::uint64_t bytes() const { return bytes_; }  // in memory, of all that was loaded

  // The vectors of `roles`, one after the other; empty where the model has none of them.
  Result<std::vector<float>> vector(std::initializer_list<TensorRole> roles,
                                    std::int64_t layer = 0) {
    std::vector<float> values;
    for (const TensorRole role : roles) {
      if (spec_.has(role)) QUIRE_RETURN_IF_ERROR(append(role, layer, values));
    }
    bytes_ += values.size() * sizeof(float);
    return values;
  }

  // A norm's weights, as the kernels multiply with them.
  Result<std::vector<float>> norm(TensorRole role, std::int64_t layer = 0) {
    QUIRE_ASSIGN_OR_RETURN(auto values, vector({role}, layer));
    const auto offset = static_cast<float>(spec_.norm_weight_offset);
    if (offset != 0.0F) {
      for (float& value : values) value += offset;
    }
    return values;
  }

  // The matrices of `roles`, packed as one where their encodings agree, else one each.
  Result<std::vector<PackedWeight>> matrices(std::initializer_list<TensorRole> roles,
                                             std::int64_t layer = 0) {
    std::vector<const TensorInfo*> tensors;
    std::vector<EncodedMatrix> parts;
    for (const TensorRole role : roles) {
      const TensorInfo* tensor = source_.find(spec_.names->name(role, layer));
      tensors.push_back(tensor);
      parts.push_back({tensor->encoding, tensor->shape[0], tensor->shape[1], tensor->data.data()});
    }
    const bool uniform = std::all_of(parts.begin(), parts.end(), [&](const EncodedMatrix& part) {
      return part.encoding == parts[0].encoding;
    });
    std::vector<PackedWeight> packed;
    const std::size_t step = uniform ? parts.size() : 1;
    for (std::size_t i = 0; i < parts.size(); i += step) {
      auto weight = packed_matrix(tensors[i]->name, std::span(&parts[i], step));
      if (!weight.ok()) {
        const Status status = weight.status();
        return Status(
            status.code(),
            fmt::format("{}: tensor {}: {}", tensors[i]->file, tensors[i]->name, status.message()),
            status.remedy());
      }
      bytes_ += weight->size_bytes();
      packed.push_back(std::move(weight).value());
    }
    for (const TensorInfo* tensor : tensors) report(*tensor);
    return packed;
  }

  // `role` is the embedding's or the logits'.
  Result<PackedWeight> vocabulary(TensorRole role) {
    options_.vocabulary = true;
    auto packed = matrix(role);
    options_.vocabulary = false;
    return packed;
  }

  Result<PackedWeight> matrix(TensorRole role, std::int64_t layer = 0) {
    QUIRE_ASSIGN_OR_RETURN(auto packed, matrices({role}, layer));
    return std::move(packed[0]);
  }

 private:
  // `parts` as one matrix, which the cache knows by the name of the first.
  Result<PackedWeight> packed_matrix(const std::string& name,
                                     std::span<const EncodedMatrix> parts) {
    if (cache_ == nullptr) return pack(parts);
    std::int64_t outputs = 0;
    for (const EncodedMatrix& part : parts) outputs += part.rows;
    const std::int64_t inputs = parts[0].cols;
    const WeightLayout layout = layout_at_load(parts[0].encoding, inputs, options_);
    QUIRE_ASSIGN_OR_RETURN(auto kept, cache_->find(name, layout, outputs, inputs));
    if (kept) return *std::move(kept);
    QUIRE_ASSIGN_OR_RETURN(auto packed, pack(parts));
    cache_->add(name, packed, pool_);
    return packed;
  }

  Result<PackedWeight> pack(std::span<const EncodedMatrix> parts) {
    return PackedWeight::pack(pool_, parts.data(), static_cast<int>(parts.size()), options_);
  }

  Status append(TensorRole role, std::int64_t layer, std::vector<float>& values) {
    const TensorInfo& tensor = *source_.find(spec_.names->name(role, layer));
    const std::size_t begin = values.size();
    values.resize(begin + static_cast<std::size_t>(tensor.shape[0]));
    if (!encoded_row_bytes(tensor.encoding, tensor.shape[0])) {
      return Status::bad_model(fmt::format("{}: tensor {}: {} elements are not whole {} blocks",
                                           tensor.file, printable(tensor.name), tensor.shape[0],
                                           encoding_traits(tensor.encoding).name));
    }
    decode_row(tensor.encoding, tensor.data.data(), tensor.shape[0], values.data() + begin);
    if (!std::all_of(values.begin() + static_cast<std::ptrdiff_t>(begin), values.end(),
                     [](float v) { return std::isfinite(v); })) {
      return Status::bad_model(fmt::format("{}: tensor {} has values that are not finite",
                                           tensor.file, printable(tensor.name)),
                               "fetch the file again");
    }
    report(tensor);
    return {};
  }

  void report(const TensorInfo& tensor) {
    done_ += tensor.data.size();
    if (progress_) progress_(done_, total_);
  }

  const DecoderSpec& spec_;
  const WeightSource& source_;
  ThreadPool& pool_;
  const LoadProgress& progress_;
  PackedCache* cache_;
  PackOptions options_;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t bytes_ = 0;
};

Result<AttentionBlock> load_attention(const DecoderSpec& spec, Loader& loader, std::int64_t layer) {
  const AttentionShape shape = {.num_heads = static_cast<std::int32_t>(spec.num_heads),
                                .num_kv_heads = static_cast<std::int32_t>(spec.num_kv_heads),
                                .head_dim = static_cast<std::int32_t>(spec.head_dim),
                                .scale = static_cast<float>(spec.attention_scale),
                                .window = spec.layers[static_cast<std::size_t>(layer)].window};
  using enum TensorRole;
  AttentionWeights weights;
  QUIRE_ASSIGN_OR_RETURN(weights.norm, loader.norm(kInputNorm, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.qkv, loader.matrices({kQuery, kKey, kValue}, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.qkv_bias,
                         loader.vector({kQueryBias, kKeyBias, kValueBias}, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.q_norm, loader.norm(kQueryNorm, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.k_norm, loader.norm(kKeyNorm, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.output, loader.matrix(kAttentionOutput, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.output_bias, loader.vector({kAttentionBias}, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.output_norm, loader.norm(kAttentionOutputNorm, layer));
  return AttentionBlock(shape, static_cast<float>(spec.rms_norm_eps), std::move(weights));
}

Result<MlpBlock> load_mlp(const DecoderSpec& spec, Loader& loader, std::int64_t layer) {
  using enum TensorRole;
  MlpWeights weights;
  QUIRE_ASSIGN_OR_RETURN(weights.norm, loader.norm(kMlpNorm, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.gate, loader.matrix(kGate, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.up, loader.matrix(kUp, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.down, loader.matrix(kDown, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.gate_bias, loader.vector({kGateBias}, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.up_bias, loader.vector({kUpBias}, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.down_bias, loader.vector({kDownBias}, layer));
  QUIRE_ASSIGN_OR_RETURN(weights.output_norm, loader.norm(kMlpOutputNorm, layer));
  return MlpBlock(spec.activation, static_cast<float>(spec.rms_norm_eps), std::move(weights));
}

Result<DecoderLayer> load_layer(const DecoderSpec& spec, Loader& loader, std::int64_t layer) {
  QUIRE_ASSIGN_OR_RETURN(auto attention, load_attention(spec, loader, layer));
  QUIRE_ASSIGN_OR_RETURN(auto mlp, load_mlp(spec, loader, layer));
  const std::int32_t rope = spec.layers[static_cast<std::size_t>(layer)].rope;
  return DecoderLayer{std::move(attention), std::move(mlp), static_cast<std::size_t>(rope)};
}

}  // namespace

Status check_tensors(const DecoderSpec& spec, const WeightSource& source) {
  std::unordered_set<std::string> known;
  for (ExpectedTensor& expected : expected_tensors(spec)) {
    const TensorInfo* tensor = source.find(expected.name);
    if (tensor == nullptr) {
      const std::string where =
          source.tensors().empty() ? "the checkpoint" : source.tensors()[0].file;
      return Status::bad_model(fmt::format("{}: tensor {} is missing", where, expected.name),
                               "fetch the model again; all shards must be there");
    }
    if (tensor->shape != expected.shape) {
      return Status::bad_model(
          fmt::format("{}: tensor {} has shape [{}]; the configuration says [{}]", tensor->file,
                      printable(tensor->name), fmt::join(tensor->shape, ", "),
                      fmt::join(expected.shape, ", ")),
          "configuration and weights do not belong together");
    }
    known.insert(std::move(expected.name));
  }
  for (const TensorInfo& tensor : source.tensors()) {
    if (!known.contains(tensor.name) && !is_ignorable(spec, tensor.name)) {
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
  for (const ExpectedTensor& expected : expected_tensors(spec)) {
    const TensorInfo* tensor = source.find(expected.name);
    if (tensor == nullptr || tensor->shape.size() != 2 ||
        !is_quantized(layout_of(tensor->encoding))) {
      continue;
    }
    return Status::config(
        fmt::format("--quantization {}: {}: tensor {} is quantized already, as {}",
                    load_quantization_name(quantization), tensor->file, tensor->name,
                    encoding_traits(tensor->encoding).name),
        "leave the flag out, or use a checkpoint of F32, F16 or BF16");
  }
  return {};
}

Result<std::unique_ptr<Model>> Model::load(const DecoderSpec& spec, const WeightSource& source,
                                           std::int64_t max_positions, ThreadPool& pool,
                                           const LoadProgress& progress,
                                           LoadQuantization quantization, PackedCache* cache) {
  QUIRE_RETURN_IF_ERROR(check_tensors(spec, source));
  QUIRE_RETURN_IF_ERROR(check_quantization(spec, source, quantization));
  Loader loader(spec, source, pool, progress, quantization, cache);
  QUIRE_ASSIGN_OR_RETURN(auto embedding, loader.vocabulary(TensorRole::kEmbedding));
  PackedWeight output;
  if (!spec.tie_word_embeddings) {
    QUIRE_ASSIGN_OR_RETURN(output, loader.vocabulary(TensorRole::kOutput));
  }
  QUIRE_ASSIGN_OR_RETURN(auto final_norm, loader.norm(TensorRole::kFinalNorm));
  std::vector<DecoderLayer> layers;
  layers.reserve(static_cast<std::size_t>(spec.num_layers));
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    QUIRE_ASSIGN_OR_RETURN(auto layer, load_layer(spec, loader, i));
    layers.push_back(std::move(layer));
  }
  std::vector<RotaryTable> rotaries;
  rotaries.reserve(spec.ropes.size());
  for (const RopeSpec& rope : spec.ropes) {
    rotaries.emplace_back(max_positions, static_cast<std::int32_t>(spec.head_dim), rope,
                          spec.rope_style);
  }
  const std::uint64_t bytes = loader.bytes() + spec.rotary_bytes(max_positions);
  return std::unique_ptr<Model>(
      new Model(spec, std::move(embedding), std::move(output), std::move(final_norm),
                DecoderStack(std::move(rotaries), std::move(layers)), bytes));
}

}  // namespace quire
