// What can be said of an engine's settings before any model is opened.
#pragma once

#include <optional>
#include <string_view>

#include "base/pooling.h"
#include "base/status.h"
#include "core/scheduler.h"
#include "engine/api.h"
#include "tensor/dtype.h"

namespace quire {

// What --n-gpu-layers and --n-cpu-moe are at most.
inline constexpr std::int32_t kMostLayers = 100'000;

// kInvalidArgument for a name that does not exist or a number out of range, naming the flag. What
// depends on the model (--max-model-len, a type that it does not have) is left to size_engine().
Status check_engine_args(const EngineArgs& args);

Result<SchedulingPolicy> parse_policy(std::string_view name);
// The names of --batching: "continuous", "static", "dynamic".
std::string_view batching_name(Batching batching);
Result<Batching> parse_batching(std::string_view name);

// `name` as --pooling-type accepts it, in any case; nullopt for auto.
Result<std::optional<Pooling>> parse_pooling(std::string_view name);

// `name` as --dtype accepts it: nullopt for auto, else whether it is float32.
Result<std::optional<bool>> parse_activation_dtype(std::string_view name);
// `name` as --kv-cache-dtype accepts it; auto is what the model computes in.
Result<DType> parse_kv_cache_dtype(std::string_view name, bool float32);

}  // namespace quire
