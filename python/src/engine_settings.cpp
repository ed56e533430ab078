#include "engine_settings.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "apps/local_model.h"
#include "apps/simulated_engine.h"
#include "apps/vllm_flags.h"
#include "base/json.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "engine/engine_args.h"

namespace quire::python {
namespace {

template <typename T>
Result<std::optional<T>> find_value(const JsonReader& object, std::string_view key) {
  if constexpr (std::is_same_v<T, std::string>) {
    return object.find_string(key);
  } else if constexpr (std::is_same_v<T, bool>) {
    return object.find_bool(key);
  } else if constexpr (std::is_same_v<T, double>) {
    return object.find_double(key);
  } else {
    QUIRE_ASSIGN_OR_RETURN(const auto value, object.find_int(key));
    if (!value) return std::optional<T>();
    if (!std::in_range<T>(*value)) {
      return Status::invalid_argument(
          fmt::format("{}: {}: {} is out of range, which is {} to {}", object.where(), key, *value,
                      std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    }
    return std::optional<T>(static_cast<T>(*value));
  }
}

template <typename T>
struct Plain {
  using Type = T;
};
template <typename T>
struct Plain<std::optional<T>> {
  using Type = T;
};

using ReadSetting = Status (*)(const JsonReader& object, std::string_view key, EngineArgs& args);

template <typename T>
Status read_into(T& target, const JsonReader& object, std::string_view key) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, find_value<typename Plain<T>::Type>(object, key));
  if (value) target = *value;
  return {};
}

template <auto kMember>
Status read_setting(const JsonReader& object, std::string_view key, EngineArgs& args) {
  return read_into(args.*kMember, object, key);
}

template <auto kMember>
Status read_admission(const JsonReader& object, std::string_view key, EngineArgs& args) {
  return read_into(args.admission.*kMember, object, key);
}

Status read_max_step(const JsonReader& object, std::string_view key, EngineArgs& args) {
  const json::value* value = object.find(key);
  if (value != nullptr && value->is_string() && value->get_string() == "auto") {
    args.max_step_ms.reset();
    return {};
  }
  return read_setting<&EngineArgs::max_step_ms>(object, key, args);
}

Status read_gpu_layers(const JsonReader& object, std::string_view key, EngineArgs& args) {
  const json::value* value = object.find(key);
  if (value != nullptr && value->is_string() && value->get_string() == "all") {
    args.n_gpu_layers.reset();
    return {};
  }
  return read_setting<&EngineArgs::n_gpu_layers>(object, key, args);
}

// vLLM's None is this engine's "none".
Status read_quantization(const JsonReader& object, std::string_view key, EngineArgs& args) {
  QUIRE_RETURN_IF_ERROR(read_setting<&EngineArgs::quantization>(object, key, args));
  if (args.quantization == "gguf") args.quantization = "none";  // the file says how
  return {};
}

// An object as the command line's JSON, or its text.
Status read_speculation(const JsonReader& object, std::string_view key, EngineArgs& args) {
  const json::value* value = object.find(key);
  if (value == nullptr) return {};
  const std::string text =
      value->is_string() ? std::string(value->get_string()) : json::serialize(*value);
  QUIRE_ASSIGN_OR_RETURN(args.speculation, SpeculativeConfig::parse(text));
  return {};
}

struct Setting {
  std::string_view name;
  ReadSetting read;
};

constexpr auto kSettings = std::to_array<Setting>({
    {"model", read_setting<&EngineArgs::model>},
    {"tokenizer", read_setting<&EngineArgs::tokenizer>},
    {"chat_template", read_setting<&EngineArgs::chat_template>},
    {"dtype", read_setting<&EngineArgs::dtype>},
    {"kv_cache_dtype", read_setting<&EngineArgs::kv_cache_dtype>},
    {"quantization", read_quantization},
    {"packed_weights_cache", read_setting<&EngineArgs::packed_weights_cache>},
    {"device", read_setting<&EngineArgs::device>},
    {"n_gpu_layers", read_gpu_layers},
    {"n_cpu_moe", read_setting<&EngineArgs::n_cpu_moe>},
    {"threads", read_setting<&EngineArgs::threads>},
    {"block_size", read_setting<&EngineArgs::block_size>},
    {"max_num_seqs", read_setting<&EngineArgs::max_num_seqs>},
    {"max_num_batched_tokens", read_setting<&EngineArgs::max_num_batched_tokens>},
    {"max_steps_in_flight", read_setting<&EngineArgs::max_steps_in_flight>},
    {"max_step_ms", read_max_step},
    {"kv_cache_memory_bytes", read_setting<&EngineArgs::kv_cache_memory_bytes>},
    {"kv_offload_path", read_setting<&EngineArgs::kv_offload_path>},
    {"kv_offloading_size", read_setting<&EngineArgs::kv_offloading_size>},
    {"gpu_memory_utilization", read_setting<&EngineArgs::gpu_memory_utilization>},
    {"max_model_len", read_setting<&EngineArgs::max_model_len>},
    {"enable_chunked_prefill", read_setting<&EngineArgs::enable_chunked_prefill>},
    {"enable_prefix_caching", read_setting<&EngineArgs::enable_prefix_caching>},
    {"max_pinned_share", read_setting<&EngineArgs::max_pinned_share>},
    {"scheduling_policy", read_setting<&EngineArgs::scheduling_policy>},
    {"batching", read_setting<&EngineArgs::batching>},
    {"max_batch_delay_ms", read_setting<&EngineArgs::max_batch_delay_ms>},
    {"waiting_served_ratio", read_admission<&AdmissionPace::waiting_served_ratio>},
    {"max_waiting_tokens", read_admission<&AdmissionPace::max_waiting_tokens>},
    {"speculative_config", read_speculation},
    {"prefault", read_setting<&EngineArgs::prefault>},
    {"max_queued_requests", read_setting<&EngineArgs::max_queued_requests>},
    {"max_logprobs", read_setting<&EngineArgs::max_logprobs>},
    {"generation_config", read_setting<&EngineArgs::generation_config>},
    {"pooling_type", read_setting<&EngineArgs::pooling_type>},
    {"normalize_embeddings", read_setting<&EngineArgs::normalize_embeddings>},
    {"seed", read_setting<&EngineArgs::seed>},
    {"event_log", read_setting<&EngineArgs::event_log>},
    {"event_log_segment_bytes", read_setting<&EngineArgs::event_log_segment_bytes>},
    {"event_log_segments", read_setting<&EngineArgs::event_log_segments>},
});
constexpr std::string_view kSimulatedStep = "simulate_step_ms";
constexpr std::string_view kSimulatedToken = "simulate_token_us";

// A value as a command line would have it.
std::vector<std::string> words_of(const json::value& value) {
  if (value.is_null()) return {"none"};
  if (value.is_string()) return {std::string(value.get_string())};
  return {json::serialize(value)};
}

Status check_vllm_key(std::string_view key, const json::value& value,
                      std::span<const std::string> others, std::vector<std::string>& notes) {
  std::string flag = "--" + std::string(key);
  std::ranges::replace(flag, '_', '-');
  if (std::ranges::find(vllm_flags(), flag, &VllmFlag::name) != vllm_flags().end()) {
    VllmFlags given;
    given.values[flag] = words_of(value);
    return check_vllm_flags(given, notes);
  }
  std::vector<std::string> names(others.begin(), others.end());
  for (const std::string_view name : {kSimulatedStep, kSimulatedToken}) names.emplace_back(name);
  for (const Setting& setting : kSettings) names.emplace_back(setting.name);
  const auto near = nearest(std::string(key), names);
  return Status::invalid_argument(
      fmt::format("an engine has no setting \"{}\"", printable(key, 60)),
      near ? fmt::format("did you mean {}?", *near) : "see help(quire.LLM)");
}

Result<Duration> read_duration(const JsonReader& object, std::string_view key, double unit_ns) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, object.find_double(key));
  const double number = value.value_or(0);
  if (!(number >= 0 && number <= 1e9)) {
    return Status::invalid_argument(
        fmt::format("{}: {} is not a number from 0 to 1e9", key, number));
  }
  return Duration(static_cast<std::int64_t>(number * unit_ns));
}

}  // namespace

bool is_engine_setting(std::string_view key) {
  return key == kSimulatedStep || key == kSimulatedToken ||
         std::ranges::find(kSettings, key, &Setting::name) != kSettings.end();
}

Result<EngineSettings> read_engine_settings(std::string_view text, std::vector<std::string>& notes,
                                            std::span<const std::string> others) {
  QUIRE_ASSIGN_OR_RETURN(const json::value value, parse_json(text, "settings"));
  if (!value.is_object()) return Status::invalid_argument("settings: expected an object");
  const JsonReader object(value.get_object(), "settings", StatusCode::kInvalidArgument);
  EngineSettings settings;
  for (const auto& entry : object.object()) {
    const std::string_view key = entry.key();
    const auto known = std::ranges::find(kSettings, key, &Setting::name);
    if (known != kSettings.end()) {
      QUIRE_RETURN_IF_ERROR(known->read(object, key, settings.args));
    } else if (key != kSimulatedStep && key != kSimulatedToken) {
      QUIRE_RETURN_IF_ERROR(check_vllm_key(key, entry.value(), others, notes));
    }
  }
  if (object.contains(kSimulatedStep)) {
    QUIRE_ASSIGN_OR_RETURN(settings.simulated_step, read_duration(object, kSimulatedStep, 1e6));
  }
  QUIRE_ASSIGN_OR_RETURN(settings.simulated_token, read_duration(object, kSimulatedToken, 1e3));
  QUIRE_RETURN_IF_ERROR(check_engine_args(settings.args));
  return settings;
}

Result<std::unique_ptr<Engine>> start_engine(EngineSettings settings,
                                             std::function<void(const StepRecord&)> stepped) {
  QUIRE_RETURN_IF_ERROR(make_models_local(settings.args));
  if (settings.simulated_step) {
    log_warning("simulated: no weights are loaded, and the tokens are made up");
    return create_simulated_engine({.engine = settings.args,
                                    .step_time = *settings.simulated_step,
                                    .token_time = settings.simulated_token},
                                   std::move(stepped));
  }
  const auto planned = [](const MemoryPlan& plan) { log_info("{}", plan.to_line()); };
  return Engine::create(settings.args,
                        {.planned = planned, .loaded = {}, .stepped = std::move(stepped)});
}

}  // namespace quire::python
