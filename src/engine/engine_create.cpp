// An engine of a model's files: what is loaded, in which order.
#include <utility>

#include <fmt/format.h>

#include "base/exhaustion.h"
#include "base/log.h"
#include "engine/api.h"
#include "engine/assembly.h"
#include "engine/draft_model_parts.h"
#include "engine/engine_args.h"
#include "engine/engine_sizing.h"
#include "engine/offload_files.h"
#include "exec/in_process_executor.h"
#include "load/model_bundle.h"
#include "models/decoder_model.h"
#include "models/packed_cache.h"

namespace quire {
namespace {

// Packs the weights, or maps them where they were packed before and kept.
Result<std::unique_ptr<Model>> load_model(const EngineArgs& args, const ModelBundle& bundle,
                                          const EngineSizes& sizes, const ModelDevices& devices,
                                          const LoadProgress& progress) {
  std::unique_ptr<PackedCache> cache;
  if (!args.packed_weights_cache.empty()) {
    QUIRE_ASSIGN_OR_RETURN(cache, PackedCache::open(args.packed_weights_cache, bundle.files.path,
                                                    *bundle.weights, sizes.quantization, devices));
  }
  QUIRE_ASSIGN_OR_RETURN(
      auto model, Model::load(bundle.spec, *bundle.weights, sizes.max_model_len, devices, progress,
                              sizes.quantization, cache.get()));
  if (cache) {
    const auto outcome = cache->finish();
    if (outcome.ok()) {
      log_info("{}", *outcome);
    } else {
      log_warning("packed weights were not kept: {}", outcome.status().to_string());
    }
  }
  return model;
}

// What computes the model, and the processor if it has a part of it.
Result<std::vector<std::unique_ptr<Device>>> make_devices(const ComputeDevice& on,
                                                          const EngineSizes& sizes, IsaLevel level,
                                                          int threads) {
  std::vector<std::unique_ptr<Device>> devices;
  QUIRE_ASSIGN_OR_RETURN(auto main, on.make(level, threads));
  devices.push_back(std::move(main));
  if (!sizes.runner.split.empty()) devices.push_back(make_processor(level, threads));
  return devices;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(const EngineArgs& args,
                                               const EngineObserver& observer) {
  QUIRE_ASSIGN_OR_RETURN(const ComputeDevice device, choose_device(args.device, args.n_gpu_layers));
  return create_engine(args, observer, device);
}

Result<std::unique_ptr<Engine>> create_engine(const EngineArgs& args,
                                              const EngineObserver& observer,
                                              const ComputeDevice& on) {
  QUIRE_ASSIGN_OR_RETURN(const IsaLevel level, choose_level());
  QUIRE_RETURN_IF_ERROR(check_engine_args(args));
  const std::uint64_t heap_before = heap_bytes();
  QUIRE_ASSIGN_OR_RETURN(ModelBundle bundle, open_model(args.model, args.tokenizer));
  if (bundle.skipped.tensors != 0) {
    log_info("{}: text alone is read; not loaded: {}", bundle.spec.architecture,
             bundle.skipped.to_text());
  }
  const std::uint64_t table_bytes = heap_bytes() - heap_before;
  QUIRE_ASSIGN_OR_RETURN(const auto draft, open_draft_model(args, bundle));
  QUIRE_RETURN_IF_ERROR(replace_chat_template(bundle.text, args.chat_template));
  const DecoderSpec& spec = bundle.spec;
  if (static_cast<std::int64_t>(bundle.text.tokenizer->vocab_size()) > spec.vocab_size) {
    return Status::bad_model(
        fmt::format("{}: the tokenizer has {} tokens, the model {}", bundle.name,
                    bundle.text.tokenizer->vocab_size(), spec.vocab_size),
        "model and tokenizer do not belong together");
  }
  QUIRE_ASSIGN_OR_RETURN(const EngineSizes sizes,
                         size_engine(args, bundle, draft, table_bytes, on));

  const auto& runner_config = sizes.runner;
  // Before anything is loaded, so that a path that cannot be written shows at once.
  QUIRE_ASSIGN_OR_RETURN(
      EngineParts parts,
      engine_parts(args, bundle, sizes.max_model_len,
                   static_cast<std::int32_t>(sizes.plan.num_blocks), runner_config.kv_cache_dtype));
  std::unique_ptr<BlockFile> offload_files;
  if (!args.kv_offload_path.empty()) {
    QUIRE_ASSIGN_OR_RETURN(offload_files,
                           open_offload_files(args, bundle, sizes, on.level_name(level)));
  }
  if (observer.planned) observer.planned(sizes.plan);
  const int threads = args.threads > 0 ? args.threads : default_num_threads();
  QUIRE_ASSIGN_OR_RETURN(auto owned_devices,
                         or_status([&] { return make_devices(on, sizes, level, threads); }));
  const ModelDevices devices(*owned_devices.front(),
                             owned_devices.size() > 1 ? owned_devices.back().get() : nullptr,
                             sizes.runner.split);
  QUIRE_ASSIGN_OR_RETURN(auto model, load_model(args, bundle, sizes, devices, observer.loaded));
  if (draft) {
    QUIRE_ASSIGN_OR_RETURN(parts.draft_model,
                           load_draft_model(*draft, *sizes.draft, args.speculation->token_tree,
                                            *model, *devices.main));
  }
  // Packed: of the mapping no page is left in memory, and the updater alone reads it again.
  auto updater = std::make_unique<WeightUpdater>(std::move(bundle.weights), sizes.max_model_len,
                                                 sizes.quantization, devices);
  QUIRE_ASSIGN_OR_RETURN(auto runner, ModelRunner::create(*model, devices, sizes.runner));
  if (offload_files != nullptr) {
    QUIRE_RETURN_IF_ERROR(runner->offload_to(std::move(offload_files)));
  }
  if (args.prefault) runner->prefault();
  log_gpu_memory(on, sizes.plan.total());
  if (args.speculation) log_info("speculation: {}", args.speculation->to_text());

  EngineInfo& info = parts.info;
  info.device = on.gpu ? on.gpu->name : "cpu";
  info.isa_level = on.level_name(level);
  info.activation = runner_config.activation_mode == ActivationMode::kInt16 ? "rounded" : "float32";
  info.quantization = load_quantization_name(sizes.quantization);
  info.threads = threads;
  info.weight_bytes = model->weight_bytes().total();
  info.kv_cache_bytes = runner->kv_cache_bytes();
  info.kv_bytes_per_token = ModelRunner::kv_block_bytes(spec, runner_config) /
                            static_cast<std::uint64_t>(runner_config.block_size);
  info.plan = sizes.plan;
  EngineProfile* const profile = observer.profile;
  SpanRecorder* const spans = profile == nullptr ? nullptr : &profile->executor;
  SpanRecorder* const on_device = profile == nullptr ? nullptr : &profile->device;
  QUIRE_ASSIGN_OR_RETURN(parts.executor, or_status([&]() -> Result<std::unique_ptr<Executor>> {
                           return std::unique_ptr<Executor>(new InProcessExecutor(
                               std::move(owned_devices), std::move(model), std::move(runner),
                               args.max_steps_in_flight, spans, on_device, std::move(updater)));
                         }));
  parts.stepped = observer.stepped;
  parts.profile = observer.profile;
  return assemble_engine(std::move(parts));
}

}  // namespace quire
