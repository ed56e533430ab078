#include "engine/engine_sizing.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "base/checked.h"

namespace quire {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// The first number in a one-line file; kUnlimited if there is none ("max", or no such file).
std::uint64_t read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : kUnlimited;
}

std::uint64_t system_available() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  std::string unit;
  while (file >> key >> kib) {
    std::getline(file, unit);
    if (key == "MemAvailable:") return kib * 1024;
  }
  return kUnlimited;
}

struct CgroupMemory {
  std::uint64_t limit;
  std::uint64_t used;
};

CgroupMemory cgroup_memory() {
  CgroupMemory v2 = {read_number("/sys/fs/cgroup/memory.max"),
                     read_number("/sys/fs/cgroup/memory.current")};
  if (v2.limit != kUnlimited) return v2;
  return {read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
          read_number("/sys/fs/cgroup/memory/memory.usage_in_bytes")};
}

Status unknown_dtype(std::string_view flag, std::string_view value) {
  if (value == "float16" || value == "half" || value.starts_with("fp8") || value == "int8") {
    return Status::unimplemented(fmt::format("{} {} is not supported on this backend", flag, value),
                                 "use auto, float32 or bfloat16");
  }
  return Status::invalid_argument(fmt::format("{} {}: no such type", flag, value),
                                  "use auto, float32 or bfloat16");
}

bool is_float32(std::string_view name) { return name == "float32" || name == "float"; }

Status resolve_types(const EngineArgs& args, const WeightSource& weights,
                     ModelRunnerConfig& runner) {
  const bool float32_checkpoint =
      std::all_of(weights.tensors().begin(), weights.tensors().end(),
                  [](const TensorInfo& tensor) { return tensor.encoding == Encoding::kF32; });
  bool float32 = float32_checkpoint;
  if (is_float32(args.dtype)) {
    float32 = true;
  } else if (args.dtype == "bfloat16") {
    float32 = false;
  } else if (args.dtype != "auto") {
    return unknown_dtype("--dtype", args.dtype);
  }
  runner.activation_mode = float32 ? ActivationMode::kFloat32 : ActivationMode::kInt8;
  if (args.kv_cache_dtype == "auto") {
    runner.kv_cache_dtype = float32 ? DType::kF32 : DType::kBF16;
  } else if (is_float32(args.kv_cache_dtype)) {
    runner.kv_cache_dtype = DType::kF32;
  } else if (args.kv_cache_dtype == "bfloat16") {
    runner.kv_cache_dtype = DType::kBF16;
  } else {
    return unknown_dtype("--kv-cache-dtype", args.kv_cache_dtype);
  }
  return {};
}

Status check_range(std::string_view flag, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return {};
  return Status::invalid_argument(fmt::format("{} {}: expected {} to {}", flag, value, low, high));
}

Status check_args(const EngineArgs& args) {
  QUIRE_RETURN_IF_ERROR(check_range("--threads", args.threads, 0, 1024));
  QUIRE_RETURN_IF_ERROR(check_range("--block-size", args.block_size, 1, 1024));
  QUIRE_RETURN_IF_ERROR(check_range("--max-num-seqs", args.max_num_seqs, 1, 4096));
  return check_range("--max-num-batched-tokens", args.max_num_batched_tokens, 1, 1 << 20);
}

Result<std::int32_t> resolve_max_model_len(const EngineArgs& args, const DecoderSpec& spec) {
  const auto trained = static_cast<std::int32_t>(spec.max_position_embeddings);
  if (!args.max_model_len) return trained;
  if (*args.max_model_len < 1 || *args.max_model_len > trained) {
    return Status::config(fmt::format("--max-model-len {}: the model was trained for sequences of "
                                      "up to {} tokens",
                                      *args.max_model_len, trained),
                          fmt::format("use 1 to {}", trained));
  }
  return *args.max_model_len;
}

// Blocks of the pool: what the user asked for, else what max_num_seqs full sequences need, at most
// a quarter of the memory that is left after the weights.
Result<std::int64_t> resolve_num_blocks(const EngineArgs& args, const DecoderSpec& spec,
                                        const EngineSizes& sizes, std::uint64_t memory_left) {
  const KvLayout layout = {.dtype = sizes.runner.kv_cache_dtype,
                           .block_size = args.block_size,
                           .num_kv_heads = static_cast<std::int32_t>(spec.num_kv_heads),
                           .head_dim = static_cast<std::int32_t>(spec.head_dim)};
  const std::uint64_t block_bytes =
      layout.block_bytes() * static_cast<std::uint64_t>(spec.num_layers);
  const std::int64_t per_sequence = ceil_div(sizes.max_model_len, args.block_size);
  const std::uint64_t budget = args.kv_cache_memory_bytes.value_or(memory_left / 4);
  std::int64_t blocks = static_cast<std::int64_t>(
      std::min<std::uint64_t>(budget / block_bytes, std::numeric_limits<std::int32_t>::max()));
  blocks = std::min(blocks, per_sequence * args.max_num_seqs);
  if (blocks < per_sequence) {
    return Status::resource_exhausted(
        fmt::format("the KV cache of {} bytes holds {} blocks of {} tokens; one sequence of "
                    "--max-model-len {} needs {} blocks, {} bytes",
                    budget, blocks, args.block_size, sizes.max_model_len, per_sequence,
                    static_cast<std::uint64_t>(per_sequence) * block_bytes),
        args.kv_cache_memory_bytes ? "raise --kv-cache-memory-bytes or lower --max-model-len"
                                   : "lower --max-model-len, or set --kv-cache-memory-bytes");
  }
  return blocks;
}

}  // namespace

std::uint64_t available_memory_bytes() {
  const CgroupMemory cgroup = cgroup_memory();
  const bool limited = cgroup.limit != kUnlimited && cgroup.used != kUnlimited;
  const std::uint64_t left =
      limited ? cgroup.limit - std::min(cgroup.used, cgroup.limit) : kUnlimited;
  return std::min(left, system_available());
}

Result<EngineSizes> size_engine(const EngineArgs& args, const DecoderSpec& spec,
                                const WeightSource& weights, std::uint64_t available_memory) {
  QUIRE_RETURN_IF_ERROR(check_args(args));
  EngineSizes sizes;
  QUIRE_RETURN_IF_ERROR(resolve_types(args, weights, sizes.runner));
  QUIRE_ASSIGN_OR_RETURN(sizes.max_model_len, resolve_max_model_len(args, spec));

  std::uint64_t weight_bytes = 0;
  for (const TensorInfo& tensor : weights.tensors()) weight_bytes += tensor.data.size();
  if (weight_bytes >= available_memory) {
    return Status::resource_exhausted(
        fmt::format("the weights take {} bytes; {} bytes of memory are available", weight_bytes,
                    available_memory),
        "free memory or use a smaller or more strongly quantized model");
  }
  sizes.runner.block_size = args.block_size;
  sizes.runner.max_num_batched_tokens = args.max_num_batched_tokens;
  sizes.runner.max_num_seqs = args.max_num_seqs;
  QUIRE_ASSIGN_OR_RETURN(sizes.runner.num_blocks,
                         resolve_num_blocks(args, spec, sizes, available_memory - weight_bytes));
  return sizes;
}

}  // namespace quire
