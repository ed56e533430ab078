#include "engine/layer_split.h"

#include <algorithm>

#include <fmt/format.h>

namespace quire {
namespace {

Status no_gpu(std::string_view flag, std::int32_t value) {
  return Status::config(
      fmt::format("{} {}: the processor computes this model, and there is no GPU beside it", flag,
                  value),
      "leave the flag out, or name a GPU with --device (docs/cuda.md)");
}

// Layers that read the keys and values of an earlier one read them where that one's are.
Status check_shared_keys(const DecoderSpec& spec, std::int64_t host_layers) {
  std::int64_t reader = kOwnKeys;
  std::int64_t first_source = spec.num_layers();
  for (std::int64_t layer = 0; layer < spec.num_layers(); ++layer) {
    const std::int32_t source = spec.layers[static_cast<std::size_t>(layer)].kv_layer();
    if (source == kOwnKeys) continue;
    first_source = std::min<std::int64_t>(first_source, source);
    if (source < host_layers && layer >= host_layers) reader = layer;
  }
  if (reader == kOwnKeys) return {};
  return Status::unimplemented(
      fmt::format("--n-gpu-layers: layer {} of {} reads the keys and values of layer {}, which "
                  "would be in the other memory",
                  reader, spec.architecture,
                  spec.layers[static_cast<std::size_t>(reader)].kv_layer()),
      fmt::format("use at least {}", spec.num_layers() + 1 - first_source));
}

// Whether guesses are made with the model's embedding, or with states of layers on their way.
bool drafts_with_layers(const EngineArgs& args) {
  return args.speculation && args.speculation->reads_states() &&
         args.speculation->method != SpeculativeMethod::kMedusa;
}

}  // namespace

Result<LayerSplit> layer_split(const EngineArgs& args, const DecoderSpec& spec,
                               const ComputeDevice& device) {
  LayerSplit split;
  const std::int64_t layers = spec.num_layers();
  const std::int64_t on_gpu = args.n_gpu_layers.value_or(layers + 1);
  if (!device.host) {
    if (args.n_gpu_layers.value_or(0) > 0) return no_gpu("--n-gpu-layers", *args.n_gpu_layers);
    if (args.n_cpu_moe > 0) return no_gpu("--n-cpu-moe", args.n_cpu_moe);
    return split;
  }
  split.host_layers = std::max<std::int64_t>(layers + 1 - on_gpu, 0);
  if (split.host_layers > 0 && drafts_with_layers(args)) {
    return Status::config(
        fmt::format("--n-gpu-layers {}: --speculative-config method \"{}\" reads what layers and "
                    "the embedding give, and these would lie in two memories",
                    on_gpu, speculative_method_name(args.speculation->method)),
        "leave one of the flags out");
  }
  QUIRE_RETURN_IF_ERROR(check_shared_keys(spec, split.host_layers));
  if (args.n_cpu_moe == 0) return split;
  if (spec.experts().num_experts == 0) {
    return Status::config(
        fmt::format("--n-cpu-moe {}: {} has no experts", args.n_cpu_moe, spec.architecture),
        "use --n-gpu-layers");
  }
  // Those of the processor's own layers are there anyway.
  const std::int64_t experts = std::min<std::int64_t>(args.n_cpu_moe, layers);
  for (std::int64_t layer = split.host_layers; layer < experts; ++layer) {
    if (spec.layers[static_cast<std::size_t>(layer)].moe() == nullptr) continue;
    split.host_expert_layers = experts;
  }
  return split;
}

}  // namespace quire
