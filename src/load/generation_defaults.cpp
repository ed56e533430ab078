#include "load/generation_defaults.h"

#include <limits>

#include <fmt/format.h>

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
  // No token id is among them, so that the size of the vocabulary does not matter.
  const Status valid = params.validate(std::numeric_limits<std::int32_t>::max());
  if (!valid.ok()) {
    return Status::bad_model(fmt::format("{}: {}", generation_config.where(), valid.message()),
                             "correct the file, or start with --generation-config vllm");
  }
  return defaults;
}

}  // namespace quire
