#include "models/medusa.h"

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "kernels/sizing.h"
#include "models/draft_layers.h"
#include "models/tensor_loader.h"
#include "models/token_map.h"

namespace quire {
namespace {

constexpr std::string_view kTokenMap = "token_map";
constexpr std::int64_t kMaxMedusaHeads = 32;
constexpr const char* kOtherHeads = "use heads that were trained for the model";

// The first of `keys` that is there.
Result<std::int64_t> read_count(const JsonReader& config, std::array<std::string_view, 2> keys,
                                std::int64_t least) {
  const std::string_view key = config.contains(keys[0]) ? keys[0] : keys[1];
  QUIRE_ASSIGN_OR_RETURN(const auto count, config.find_int(key));
  if (!count) {
    return Status::bad_model(
        fmt::format("{}: there is neither {} nor {}", config.where(), keys[0], keys[1]));
  }
  if (*count < least || *count > kMaxMedusaHeads) {
    return Status::bad_model(fmt::format("{}: {} is {}; expected {} to {}", config.where(), key,
                                         *count, least, kMaxMedusaHeads));
  }
  return *count;
}

// Whole models that were saved with their heads have a prefix.
Status find_layout(const WeightSource& source, MedusaSpec& spec) {
  for (const MedusaSpec::Layout layout : {MedusaSpec::Layout::kMedusa, MedusaSpec::Layout::kVllm}) {
    for (const char* prefix : {"", "medusa_head.", "medusa_heads."}) {
      spec.layout = layout;
      spec.prefix = prefix;
      const std::string first =
          spec.num_layers > 0 ? spec.block_name(0, 0, false) : spec.output_name(0);
      if (source.find(first) != nullptr) return {};
    }
  }
  return Status::bad_model(
      "there are no heads: neither 0.0.linear.weight nor blocks.0.layers.0.weight",
      "give the folder of a Medusa checkpoint, in Medusa's layout or in vLLM's");
}

Status check_tensor(const WeightSource& source, const std::string& name,
                    const std::vector<std::int64_t>& shape) {
  const TensorInfo* const tensor = source.find(name);
  if (tensor == nullptr) {
    return Status::bad_model(fmt::format("tensor {} is missing", printable(name)),
                             "fetch the heads again, or correct their number in config.json");
  }
  if (tensor->shape == shape) return {};
  return Status::config(
      fmt::format("{}: tensor {} has shape [{}]; the model asks for [{}]", tensor->file,
                  printable(name), fmt::join(tensor->shape, ", "), fmt::join(shape, ", ")),
      kOtherHeads);
}

Status check_tensors(const MedusaSpec& spec, const WeightSource& source) {
  const std::int64_t size = spec.hidden_size;
  for (std::int64_t head = 0; head < spec.num_heads; ++head) {
    for (std::int64_t layer = 0; layer < spec.num_layers; ++layer) {
      QUIRE_RETURN_IF_ERROR(
          check_tensor(source, spec.block_name(head, layer, false), {size, size}));
      if (!spec.bias) continue;
      QUIRE_RETURN_IF_ERROR(check_tensor(source, spec.block_name(head, layer, true), {size}));
    }
    QUIRE_RETURN_IF_ERROR(check_tensor(source, spec.output_name(head), {spec.vocab_size, size}));
  }
  if (!spec.reduced) return {};
  return check_tensor(source, spec.prefix + std::string(kTokenMap), {spec.vocab_size});
}

// Where a checkpoint says more than numbers of heads and layers.
Status read_sizes(const JsonReader& config, const DecoderSpec& model, MedusaSpec& spec) {
  for (const auto& [key, expected] :
       {std::pair<std::string_view, std::int64_t>("hidden_size", model.hidden_size),
        {"vocab_size", model.vocab_size}}) {
    QUIRE_ASSIGN_OR_RETURN(const auto value, config.find_int(key));
    if (value) QUIRE_RETURN_IF_ERROR(expect_size(config, key, *value, expected));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto reduced, config.find_int("truncated_vocab_size"));
  if (reduced && *reduced != model.vocab_size) {
    if (*reduced < 1 || *reduced > model.vocab_size) {
      return Status::bad_model(fmt::format("{}: truncated_vocab_size is {}; expected 1 to {}",
                                           config.where(), *reduced, model.vocab_size));
    }
    spec.reduced = true;
    spec.vocab_size = *reduced;
  }
  QUIRE_ASSIGN_OR_RETURN(const auto one_output, config.find_bool("original_lm_head"));
  spec.one_output = one_output.value_or(false);
  return {};
}

Result<PackedWeight> load_matrix(const WeightSource& source, const std::string& name,
                                 Device& device) {
  const TensorInfo& tensor = *source.find(name);
  QUIRE_ASSIGN_OR_RETURN(const TensorRows rows, source.rows(tensor, device.host_threads()));
  const EncodedMatrix matrix = {.encoding = tensor.encoding,
                                .rows = tensor.shape[0],
                                .cols = tensor.shape[1],
                                .data = rows.data};
  PackOptions options;
  options.done = [&source](const std::uint8_t* data, std::uint64_t bytes) {
    source.release({data, bytes});
  };
  auto packed = device.pack({&matrix, 1}, options);
  if (!packed.ok()) {
    return Status(
        packed.status().code(),
        fmt::format("{}: tensor {}: {}", tensor.file, printable(name), packed.status().message()),
        packed.status().remedy());
  }
  return device.adopt(std::move(*packed));
}

Result<DeviceFloats> load_vector(const WeightSource& source, const std::string& name,
                                 Device& device) {
  const TensorInfo& tensor = *source.find(name);
  std::vector<float> values(static_cast<std::size_t>(tensor.shape[0]));
  decode_row(tensor.encoding, tensor.data.data(), tensor.shape[0], values.data());
  QUIRE_RETURN_IF_ERROR(check_finite(tensor, values));
  return device.upload(std::move(values));
}

}  // namespace

std::string MedusaSpec::block_name(std::int64_t head, std::int64_t layer, bool is_bias) const {
  const std::string_view kind = is_bias ? "bias" : "weight";
  return layout == Layout::kVllm
             ? fmt::format("{}blocks.{}.layers.{}.{}", prefix, head, layer, kind)
             : fmt::format("{}{}.{}.linear.{}", prefix, head, layer, kind);
}

std::string MedusaSpec::output_name(std::int64_t head) const {
  if (layout == Layout::kMedusa) return fmt::format("{}{}.{}.weight", prefix, head, num_layers);
  return fmt::format("{}lm_heads.{}.weight", prefix, one_output ? 0 : head);
}

std::uint64_t MedusaSpec::weight_bytes(const WeightSource& source) const {
  std::uint64_t bytes = 0;
  const auto add = [&](const std::string& name) {
    const TensorInfo& tensor = *source.find(name);
    bytes += packed_weight_bytes(tensor.encoding, tensor.shape[0], tensor.shape[1],
                                 LoadQuantization::kNone, /*vocabulary=*/false);
  };
  for (std::int64_t head = 0; head < num_heads; ++head) {
    for (std::int64_t layer = 0; layer < num_layers; ++layer) {
      add(block_name(head, layer, false));
      if (bias) bytes += static_cast<std::uint64_t>(hidden_size) * sizeof(float);
    }
    if (head == 0 || !one_output) add(output_name(head));
  }
  if (reduced) bytes += static_cast<std::uint64_t>(vocab_size) * sizeof(TokenId);
  return bytes;
}

Result<MedusaSpec> medusa_spec(const JsonReader& config, const WeightSource& source,
                               const DecoderSpec& model) {
  MedusaSpec spec;
  spec.hidden_size = model.hidden_size;
  spec.vocab_size = model.vocab_size;
  QUIRE_ASSIGN_OR_RETURN(spec.num_heads, read_count(config, {"medusa_num_heads", "num_heads"}, 1));
  QUIRE_ASSIGN_OR_RETURN(spec.num_layers,
                         read_count(config, {"medusa_num_layers", "num_hidden_layers"}, 0));
  QUIRE_RETURN_IF_ERROR(find_layout(source, spec));
  QUIRE_RETURN_IF_ERROR(read_sizes(config, model, spec));
  spec.bias = spec.num_layers > 0 && source.find(spec.block_name(0, 0, true)) != nullptr;
  QUIRE_RETURN_IF_ERROR(check_tensors(spec, source));
  return spec;
}

Result<LoadedMedusa> load_medusa(const MedusaSpec& spec, const WeightSource& source,
                                 std::int64_t model_vocab_size, Device& device) {
  MedusaWeights weights;
  for (std::int64_t head = 0; head < spec.num_heads; ++head) {
    std::vector<MedusaBlock>& blocks = weights.blocks.emplace_back();
    for (std::int64_t layer = 0; layer < spec.num_layers; ++layer) {
      MedusaBlock& block = blocks.emplace_back();
      QUIRE_ASSIGN_OR_RETURN(block.matrix,
                             load_matrix(source, spec.block_name(head, layer, false), device));
      if (!spec.bias) continue;
      QUIRE_ASSIGN_OR_RETURN(block.bias,
                             load_vector(source, spec.block_name(head, layer, true), device));
    }
    if (head > 0 && spec.one_output) continue;
    QUIRE_ASSIGN_OR_RETURN(auto output, load_matrix(source, spec.output_name(head), device));
    weights.outputs.push_back(std::move(output));
  }
  LoadedMedusa loaded;
  loaded.heads = std::make_unique<const MedusaHeads>(std::move(weights));
  if (spec.reduced) {
    QUIRE_ASSIGN_OR_RETURN(loaded.token_map,
                           read_token_map(*source.find(spec.prefix + std::string(kTokenMap)),
                                          /*offsets=*/false, model_vocab_size));
  }
  return loaded;
}

}  // namespace quire
