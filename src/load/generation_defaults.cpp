#include "load/generation_defaults.h"

#include <limits>
#include <optional>
#include <type_traits>

#include <fmt/format.h>

#include "core/sampling_table.h"

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
  // No token id is among them, so that the size of the vocabulary does not matter.
  const Status valid = defaults.params.validate(std::numeric_limits<std::int32_t>::max());
  if (!valid.ok()) {
    return Status::bad_model(fmt::format("{}: {}", generation_config.where(), valid.message()),
                             "correct the file, or start with --generation-config vllm");
  }
  return defaults;
}

}  // namespace quire
