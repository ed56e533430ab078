#include "engine/offload_files.h"

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sha256.h"
#include "exec/model_runner.h"
#include "weights/checkpoint_state.h"

namespace quire {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{16} << 20;

// In words; another text is another tier.
Result<std::string> identity_text(const EngineArgs& args, const ModelBundle& bundle,
                                  const EngineSizes& sizes, std::string_view level) {
  const ModelRunnerConfig& runner = sizes.runner;
  std::string text = fmt::format(
      "Quire {}; {}; quantization {}; level {}; activations {}; KV cache {} in blocks of {}, {} "
      "bytes; max_model_len {}; {}",
      QUIRE_VERSION, bundle.spec.architecture, load_quantization_name(sizes.quantization), level,
      runner.activation_mode == ActivationMode::kInt16 ? "rounded" : "float32",
      dtype_name(runner.kv_cache_dtype), args.block_size,
      ModelRunner::kv_page_bytes(bundle.spec, runner).total(), sizes.max_model_len,
      checkpoint_state(*bundle.weights));
  if (!runner.split.empty()) {
    text += fmt::format("; the processor's: {} layers, experts of {}", runner.split.host_layers,
                        runner.split.host_expert_layers);
  }
  for (const auto& path : {bundle.files.config, bundle.files.params}) {
    if (!path) continue;
    QUIRE_ASSIGN_OR_RETURN(const std::string config, read_file(*path, kMaxConfigBytes));
    text += "; " + config;
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<BlockFile>> open_offload_files(const EngineArgs& args,
                                                      const ModelBundle& bundle,
                                                      const EngineSizes& sizes,
                                                      std::string_view level) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, identity_text(args, bundle, sizes, level));
  const BlockName identity = sha256(std::as_bytes(std::span(text)));
  const std::filesystem::path folder =
      std::filesystem::path(args.kv_offload_path) / fmt::format("quire-kv-{:016x}", identity[0]);
  auto file =
      BlockFile::open({.folder = folder,
                       .identity = identity,
                       .block_bytes = ModelRunner::kv_page_bytes(bundle.spec, sizes.runner).total(),
                       .max_blocks = sizes.plan.offload_blocks});
  if (!file.ok()) {
    const bool busy = file.status().code() == StatusCode::kUnavailable;
    return Status(file.status().code(), "--kv-offload-path: " + file.status().message(),
                  busy ? "name another folder for each engine of one model"
                       : "name a folder that can be written to, on a disk with enough room, or "
                         "lower --kv-offloading-size");
  }
  log_info("KV blocks are offloaded to {}: {} of {} blocks are there, {} tokens{}", folder.string(),
           (*file)->num_blocks(), (*file)->max_blocks(), (*file)->num_blocks() * args.block_size,
           (*file)->num_damaged() > 0
               ? fmt::format("; {} damaged or foreign entries were dropped", (*file)->num_damaged())
               : "");
  return file;
}

}  // namespace quire
