#include "engine/generation_defaults.h"

#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "weights/gguf.h"

namespace quire {
namespace {

template <typename T>
Status take(Result<std::optional<T>> found, const char* field, T& target,
            std::vector<std::string>& fields) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, std::move(found));
  if (!value) return {};
  target = *value;
  fields.emplace_back(field);
  return {};
}

// No token id is among the defaults, so that the size of the vocabulary does not matter.
Status check(const SamplingParams& params, const std::string& where) {
  const Status valid = params.validate(std::numeric_limits<std::int32_t>::max());
  if (valid.ok()) return {};
  return Status::bad_model(fmt::format("{}: {}", where, valid.message()),
                           "correct the file, or start with --generation-config vllm");
}

// GGUF files hold single precision: what its author wrote is the shortest text that gives it.
double as_written(double value) { return std::stod(fmt::format("{}", static_cast<float>(value))); }

}  // namespace

Result<GenerationDefaults> read_generation_defaults(const JsonReader& generation_config) {
  GenerationDefaults defaults;
  SamplingParams& params = defaults.params;
  const auto take_double = [&](const char* field, double& target) {
    return take(generation_config.find_double(field), field, target, defaults.fields);
  };
  QUIRE_RETURN_IF_ERROR(take_double("repetition_penalty", params.repetition_penalty));
  QUIRE_RETURN_IF_ERROR(take_double("temperature", params.temperature));
  QUIRE_RETURN_IF_ERROR(
      take(generation_config.find_int("top_k"), "top_k", params.top_k, defaults.fields));
  QUIRE_RETURN_IF_ERROR(take_double("top_p", params.top_p));
  QUIRE_RETURN_IF_ERROR(take_double("min_p", params.min_p));
  QUIRE_RETURN_IF_ERROR(take(generation_config.find_int("max_new_tokens"), "max_tokens",
                             params.max_tokens, defaults.fields));
  QUIRE_ASSIGN_OR_RETURN(const auto do_sample, generation_config.find_bool("do_sample"));
  if (do_sample && !*do_sample) {
    params.temperature = 0;
    if (!generation_config.contains("temperature")) defaults.fields.emplace_back("temperature");
  }
  QUIRE_RETURN_IF_ERROR(check(params, generation_config.where()));
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
  QUIRE_RETURN_IF_ERROR(
      take(file.find_int(prefix + "top_k"), "top_k", params.top_k, defaults.fields));
  QUIRE_RETURN_IF_ERROR(check(params, fmt::format("{}: {}*", file.name(), prefix)));
  return defaults;
}

}  // namespace quire
