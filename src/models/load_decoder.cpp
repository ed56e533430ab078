// Loading of a decoder: which tensors there are, their shapes, and packing them.
#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

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
    case TensorRole::kPostNorm:
      return {spec.hidden_size};
    case TensorRole::kQuery:
      return {spec.q_width(), spec.hidden_size};
    case TensorRole::kKey:
    case TensorRole::kValue:
      return {spec.kv_width(), spec.hidden_size};
    case TensorRole::kAttentionOutput:
      return {spec.hidden_size, spec.q_width()};
    case TensorRole::kGate:
    case TensorRole::kUp:
      return {spec.intermediate_size, spec.hidden_size};
    case TensorRole::kDown:
      return {spec.hidden_size, spec.intermediate_size};
  }
  return {};
}

std::vector<ExpectedTensor> expected_tensors(const DecoderSpec& spec) {
  std::vector<ExpectedTensor> expected;
  for (int i = 0; i < kNumTensorRoles; ++i) {
    const auto role = static_cast<TensorRole>(i);
    if (role == TensorRole::kOutput && spec.tie_word_embeddings) continue;
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
  return spec.tie_word_embeddings && name == spec.names->name(TensorRole::kOutput);
}

// Reads tensors by role and reports progress.
class Loader {
 public:
  Loader(const DecoderSpec& spec, const WeightSource& source, ThreadPool& pool,
         const LoadProgress& progress)
      : spec_(spec), source_(source), pool_(pool), progress_(progress) {
    for (const TensorInfo& tensor : source.tensors()) total_ += tensor.data.size();
  }

  std::uint64_t packed_bytes() const { return packed_; }

  Result<std::vector<float>> vector(TensorRole role, std::int64_t layer = 0) {
    const TensorInfo& tensor = *source_.find(spec_.names->name(role, layer));
    std::vector<float> values(static_cast<std::size_t>(tensor.shape[0]));
    if (!encoded_row_bytes(tensor.encoding, tensor.shape[0])) {
      return Status::bad_model(fmt::format("{}: tensor {}: {} elements are not whole {} blocks",
                                           tensor.file, tensor.name, tensor.shape[0],
                                           encoding_traits(tensor.encoding).name));
    }
    decode_row(tensor.encoding, tensor.data.data(), tensor.shape[0], values.data());
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
      return Status::bad_model(
          fmt::format("{}: tensor {} has values that are not finite", tensor.file, tensor.name),
          "fetch the file again");
    }
    report(tensor);
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
      auto weight = PackedWeight::pack(pool_, &parts[i], static_cast<int>(step));
      if (!weight.ok()) {
        const Status status = weight.status();
        return Status(
            status.code(),
            fmt::format("{}: tensor {}: {}", tensors[i]->file, tensors[i]->name, status.message()),
            status.remedy());
      }
      packed_ += weight->size_bytes();
      packed.push_back(std::move(weight).value());
    }
    for (const TensorInfo* tensor : tensors) report(*tensor);
    return packed;
  }

  Result<PackedWeight> matrix(TensorRole role, std::int64_t layer = 0) {
    QUIRE_ASSIGN_OR_RETURN(auto packed, matrices({role}, layer));
    return std::move(packed[0]);
  }

 private:
  void report(const TensorInfo& tensor) {
    done_ += tensor.data.size();
    if (progress_) progress_(done_, total_);
  }

  const DecoderSpec& spec_;
  const WeightSource& source_;
  ThreadPool& pool_;
  const LoadProgress& progress_;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t packed_ = 0;
};

Result<DecoderLayer> load_layer(const DecoderSpec& spec, Loader& loader, std::int64_t layer) {
  const auto epsilon = static_cast<float>(spec.rms_norm_eps);
  const AttentionShape shape = {.num_heads = static_cast<std::int32_t>(spec.num_heads),
                                .num_kv_heads = static_cast<std::int32_t>(spec.num_kv_heads),
                                .head_dim = static_cast<std::int32_t>(spec.head_dim)};
  using enum TensorRole;
  QUIRE_ASSIGN_OR_RETURN(auto input_norm, loader.vector(kInputNorm, layer));
  QUIRE_ASSIGN_OR_RETURN(auto qkv, loader.matrices({kQuery, kKey, kValue}, layer));
  QUIRE_ASSIGN_OR_RETURN(auto output, loader.matrix(kAttentionOutput, layer));
  QUIRE_ASSIGN_OR_RETURN(auto post_norm, loader.vector(kPostNorm, layer));
  QUIRE_ASSIGN_OR_RETURN(auto gate_up, loader.matrices({kGate, kUp}, layer));
  QUIRE_ASSIGN_OR_RETURN(auto down, loader.matrix(kDown, layer));
  return DecoderLayer{
      AttentionBlock(shape, std::move(input_norm), epsilon, std::move(qkv), std::move(output)),
      MlpBlock(std::move(post_norm), epsilon, std::move(gate_up), std::move(down))};
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
                      tensor->name, fmt::join(tensor->shape, ", "),
                      fmt::join(expected.shape, ", ")),
          "configuration and weights do not belong together");
    }
    known.insert(std::move(expected.name));
  }
  for (const TensorInfo& tensor : source.tensors()) {
    if (!known.contains(tensor.name) && !is_ignorable(spec, tensor.name)) {
      return Status::bad_model(
          fmt::format("{}: tensor {} is not part of architecture {}", tensor.file, tensor.name,
                      spec.architecture),
          "ignoring it would change results; the model needs a family that Quire does not have");
    }
  }
  return {};
}

Result<std::unique_ptr<Model>> Model::load(const DecoderSpec& spec, const WeightSource& source,
                                           std::int64_t max_positions, ThreadPool& pool,
                                           const LoadProgress& progress) {
  QUIRE_RETURN_IF_ERROR(check_tensors(spec, source));
  Loader loader(spec, source, pool, progress);
  QUIRE_ASSIGN_OR_RETURN(auto embedding, loader.matrix(TensorRole::kEmbedding));
  PackedWeight output;
  if (!spec.tie_word_embeddings) {
    QUIRE_ASSIGN_OR_RETURN(output, loader.matrix(TensorRole::kOutput));
  }
  QUIRE_ASSIGN_OR_RETURN(auto final_norm, loader.vector(TensorRole::kFinalNorm));
  std::vector<DecoderLayer> layers;
  layers.reserve(static_cast<std::size_t>(spec.num_layers));
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    QUIRE_ASSIGN_OR_RETURN(auto layer, load_layer(spec, loader, i));
    layers.push_back(std::move(layer));
  }
  RotaryTable rotary(max_positions, static_cast<std::int32_t>(spec.head_dim), spec.rope_theta,
                     spec.rope_style);
  return std::unique_ptr<Model>(
      new Model(spec, std::move(embedding), std::move(output), std::move(final_norm),
                DecoderStack(std::move(rotary), std::move(layers)), loader.packed_bytes()));
}

}  // namespace quire
