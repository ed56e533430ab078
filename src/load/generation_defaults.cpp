#include "load/generation_defaults.h"

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "core/sampling_table.h"
#include "weights/gguf.h"

namespace quire {
namespace {

Status take(const JsonReader& config, const SamplingParameter<double>& row,
            std::optional<double>& value) {
  QUIRE_ASSIGN_OR_RETURN(value, config.find_double(row.generation_config_key));
  return {};
}
Status take(const JsonReader& config, const SamplingParameter<std::int64_t>& row,
            std::optional<std::int64_t>& value) {
  QUIRE_ASSIGN_OR_RETURN(value, config.find_int(row.generation_config_key));
  return {};
}

// A parameter's value, where the file has its key.
template <typename T>
Status take(const JsonReader& config, const SamplingParameter<T>& row,
            GenerationDefaults& defaults) {
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::int64_t>) {
    if (row.generation_config_key.empty()) return {};
    std::optional<T> value;
    QUIRE_RETURN_IF_ERROR(take(config, row, value));
    if (!value) return {};
    defaults.params.*row.member = *value;
    defaults.fields.emplace_back(row.name);
  }
  return {};
}

// No token id is among the defaults, so that the size of the vocabulary does not matter.
Status check_defaults(const SamplingParams& params, const std::string& where) {
  const Status valid = params.validate(std::numeric_limits<std::int32_t>::max());
  if (valid.ok()) return {};
  return Status::bad_model(fmt::format("{}: {}", where, valid.message()),
                           "correct the file, or start with --generation-config vllm");
}

// GGUF files have single precision: what its author wrote is the shortest text that gives it.
double as_written(double value) { return std::stod(fmt::format("{}", static_cast<float>(value))); }

}  // namespace

Result<GenerationDefaults> read_generation_defaults(const JsonReader& generation_config) {
  GenerationDefaults defaults;
  Status status;
  for_each_sampling_parameter([&](const auto& row) {
    if (status.ok()) status = take(generation_config, row, defaults);
  });
  QUIRE_RETURN_IF_ERROR(status);
  QUIRE_ASSIGN_OR_RETURN(const auto do_sample, generation_config.find_bool("do_sample"));
  if (do_sample && !*do_sample) {
    defaults.params.temperature = 0;
    if (!generation_config.contains("temperature")) defaults.fields.emplace_back("temperature");
  }
  QUIRE_RETURN_IF_ERROR(check_defaults(defaults.params, generation_config.where()));
  return defaults;
}

Result<GenerationDefaults> read_generation_defaults(const GgufFile& file) {
  const std::string prefix = "general.sampling.";
  GenerationDefaults defaults;
  SamplingParams& params = defaults.params;
  const auto targets = std::to_array<std::pair<std::string, double*>>(
      {{"temperature", &params.temperature}, {"top_p", &params.top_p}, {"min_p", &params.min_p}});
  for (const auto& [field, target] : targets) {
    const std::string key = prefix + (field == "temperature" ? "temp" : field);
    QUIRE_ASSIGN_OR_RETURN(const auto value, file.find_double(key));
    if (!value) continue;
    *target = as_written(*value);
    defaults.fields.push_back(field);
  }
  QUIRE_ASSIGN_OR_RETURN(const auto top_k, file.find_int(prefix + "top_k"));
  if (top_k) {
    params.top_k = *top_k;
    defaults.fields.emplace_back("top_k");
  }
  QUIRE_RETURN_IF_ERROR(check_defaults(params, fmt::format("{}: {}*", file.name(), prefix)));
  return defaults;
}

}  // namespace quire
