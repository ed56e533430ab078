#include "engine/engine_args.h"

#include <algorithm>
#include <cctype>
#include <string>

#include <fmt/format.h>

#include "base/printable.h"
#include "engine/compute_device.h"
#include "quant/load_quantization.h"

namespace quire {
namespace {

// `known`: types that exist and that this backend does not have here.
Status unknown_dtype(std::string_view flag, std::string_view value, bool known,
                     std::string_view remedy) {
  if (known) {
    return Status::unimplemented(fmt::format("{} {} is not supported on this backend", flag, value),
                                 std::string(remedy));
  }
  return Status::invalid_argument(fmt::format("{} {}: no such type", flag, value),
                                  std::string(remedy));
}

bool is_float32(std::string_view name) { return name == "float32" || name == "float"; }

Status check_range(std::string_view flag, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return {};
  return Status::invalid_argument(fmt::format("{} {}: expected {} to {}", flag, value, low, high));
}

Status check_milliseconds(std::string_view flag, double value) {
  if (value >= 0 && value <= 3.6e6) return {};
  return Status::invalid_argument(fmt::format("{} {}: expected 0 to 3,600,000", flag, value));
}

Status check_names(const EngineArgs& args) {
  QUIRE_RETURN_IF_ERROR(check_device_name(args.device));
  QUIRE_RETURN_IF_ERROR(parse_activation_dtype(args.dtype).status());
  QUIRE_RETURN_IF_ERROR(parse_kv_cache_dtype(args.kv_cache_dtype, false).status());
  QUIRE_RETURN_IF_ERROR(parse_load_quantization(args.quantization).status());
  QUIRE_RETURN_IF_ERROR(parse_policy(args.scheduling_policy).status());
  QUIRE_RETURN_IF_ERROR(parse_batching(args.batching).status());
  QUIRE_RETURN_IF_ERROR(parse_pooling(args.pooling_type).status());
  if (args.generation_config == "auto" || args.generation_config == "vllm") return {};
  return Status::invalid_argument(
      fmt::format("--generation-config {}: expected auto or vllm", args.generation_config),
      "auto takes the model's generation_config.json, vllm none");
}

Status check_offload(const EngineArgs& args) {
  if (args.kv_offloading_size < 0 || args.kv_offloading_size > 1e6) {
    return Status::invalid_argument(
        fmt::format("--kv-offloading-size {}: expected 0 to 1,000,000", args.kv_offloading_size));
  }
  const bool sized = args.kv_offloading_size > 0;
  if (sized == args.kv_offload_path.empty()) {
    return sized ? Status::config(
                       "--kv-offloading-size: KV blocks go to files, and no folder is named",
                       "name one with --kv-offload-path DIR")
                 : Status::config(
                       "--kv-offload-path: it is not said how much of the disk may be taken",
                       "say it with --kv-offloading-size GIB");
  }
  if (sized && !args.enable_prefix_caching) {
    return Status::config("--kv-offload-path: without prefix caching no block is found again",
                          "leave --no-enable-prefix-caching or --kv-offload-path out");
  }
  return {};
}

}  // namespace

Status check_engine_args(const EngineArgs& args) {
  QUIRE_RETURN_IF_ERROR(check_names(args));
  QUIRE_RETURN_IF_ERROR(check_range("--threads", args.threads, 0, 1024));
  QUIRE_RETURN_IF_ERROR(
      check_range("--n-gpu-layers", args.n_gpu_layers.value_or(0), 0, kMostLayers));
  QUIRE_RETURN_IF_ERROR(check_range("--n-cpu-moe", args.n_cpu_moe, 0, kMostLayers));
  QUIRE_RETURN_IF_ERROR(check_range("--block-size", args.block_size, 1, 1024));
  QUIRE_RETURN_IF_ERROR(check_range("--max-num-seqs", args.max_num_seqs, 1, 4096));
  QUIRE_RETURN_IF_ERROR(
      check_range("--max-num-batched-tokens", args.max_num_batched_tokens, 1, 1 << 20));
  QUIRE_RETURN_IF_ERROR(check_milliseconds("--max-batch-delay-ms", args.max_batch_delay_ms));
  const AdmissionPace& admission = args.admission;
  if (!(admission.waiting_served_ratio >= 0 &&
        admission.waiting_served_ratio <= kMaxWaitingServedRatio)) {
    return Status::invalid_argument(fmt::format("--waiting-served-ratio {}: expected 0 to {}",
                                                admission.waiting_served_ratio,
                                                kMaxWaitingServedRatio));
  }
  QUIRE_RETURN_IF_ERROR(
      check_range("--max-waiting-tokens", admission.max_waiting_tokens, 1, 1 << 20));
  if (admission.limited() && args.batching != "continuous") {
    return Status::config(
        fmt::format("--waiting-served-ratio: with --batching {} nobody joins a batch that runs",
                    args.batching),
        "use --batching continuous, or leave --waiting-served-ratio out");
  }
  QUIRE_RETURN_IF_ERROR(check_offload(args));
  if (!(args.max_pinned_share >= 0 && args.max_pinned_share <= 0.9)) {
    return Status::invalid_argument(
        fmt::format("--max-pinned-share {}: expected 0 to 0.9", args.max_pinned_share));
  }
  if (args.speculation && args.batching != "continuous") {
    return Status::config(fmt::format("--speculative-config: with --batching {} each request gets "
                                      "one token a step, and no drafts",
                                      args.batching),
                          "use --batching continuous, or leave --speculative-config out");
  }
  if (args.speculation && args.speculation->computes() && args.max_steps_in_flight > 1) {
    return Status::config(
        fmt::format("--speculative-config: method \"{}\" computes between two steps, and there "
                    "may be more than one in flight",
                    speculative_method_name(args.speculation->method)),
        "use one step in flight, or method \"ngram\" or \"suffix\"");
  }
  return check_milliseconds("--max-step-ms", args.max_step_ms.value_or(0));
}

Result<SchedulingPolicy> parse_policy(std::string_view name) {
  using enum SchedulingPolicy;
  std::string names;
  for (const SchedulingPolicy policy :
       {kFcfs, kPriority, kShortest, kDeadline, kFair, kLongestPrefix}) {
    if (name == policy_name(policy)) return policy;
    if (!names.empty()) names += ", ";
    names += policy_name(policy);
  }
  return Status::invalid_argument(fmt::format("--scheduling-policy {}: no such policy", name),
                                  "use one of " + names);
}

std::string_view batching_name(Batching batching) {
  switch (batching) {
    case Batching::kStatic:
      return "static";
    case Batching::kDynamic:
      return "dynamic";
    case Batching::kContinuous:
      break;
  }
  return "continuous";
}

Result<Batching> parse_batching(std::string_view name) {
  for (const Batching batching : {Batching::kContinuous, Batching::kStatic, Batching::kDynamic}) {
    if (name == batching_name(batching)) return batching;
  }
  return Status::invalid_argument(fmt::format("--batching {}: no such kind", name),
                                  "use continuous, static or dynamic");
}

Result<std::optional<Pooling>> parse_pooling(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "auto") return std::optional<Pooling>();
  for (const Pooling pooling : {Pooling::kMean, Pooling::kCls, Pooling::kLast}) {
    if (lower == pooling_name(pooling)) return std::optional(pooling);
  }
  return Status::invalid_argument(
      fmt::format("--pooling-type {}: no such kind of pooling", printable(name)),
      "use auto, mean, cls or last");
}

Result<std::optional<bool>> parse_activation_dtype(std::string_view name) {
  if (name == "auto") return std::optional<bool>();
  if (is_float32(name)) return std::optional(true);
  if (name == "bfloat16") return std::optional(false);
  return unknown_dtype("--dtype", name, name == "float16" || name == "half",
                       "use auto, float32 or bfloat16");
}

Result<DType> parse_kv_cache_dtype(std::string_view name, bool float32) {
  if (name == "auto") return float32 ? DType::kF32 : DType::kBF16;
  if (is_float32(name)) return DType::kF32;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "fp8" || name == "fp8_e4m3") return DType::kF8E4M3;
  if (name == "int8") return DType::kI8;
  return unknown_dtype(
      "--kv-cache-dtype", name,
      name == "float16" || name == "half" || name.starts_with("fp8") || name.starts_with("int8"),
      "use auto, float32, bfloat16, fp8 (fp8_e4m3) or int8");
}

}  // namespace quire
