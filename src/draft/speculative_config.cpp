#include "draft/speculative_config.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/json.h"

namespace quire {
namespace {

constexpr std::string_view kFlag = "--speculative-config";

constexpr std::array<std::string_view, 8> kSpeculativeKeys = {"method",
                                                              "num_speculative_tokens",
                                                              "prompt_lookup_min",
                                                              "prompt_lookup_max",
                                                              "suffix_decoding_max_tree_depth",
                                                              "suffix_decoding_max_cached_requests",
                                                              "suffix_decoding_max_spec_factor",
                                                              "suffix_decoding_min_token_prob"};

// vLLM's methods that need another model or layers of the checkpoint.
constexpr std::array<std::string_view, 9> kMethodsOfModels = {
    "draft_model",    "eagle",  "eagle3",       "medusa",        "mtp",
    "mlp_speculator", "dflash", "deepseek_mtp", "qwen3_next_mtp"};

Result<SpeculativeMethod> parse_method(const JsonReader& reader) {
  QUIRE_ASSIGN_OR_RETURN(const auto name, reader.find_string("method"));
  if (!name) {
    return Status::invalid_argument(fmt::format("{}: method is missing", kFlag),
                                    "use \"ngram\" or \"suffix\"");
  }
  if (*name == "ngram") return SpeculativeMethod::kNgram;
  if (*name == "suffix") return SpeculativeMethod::kSuffix;
  if (std::ranges::find(kMethodsOfModels, *name) != kMethodsOfModels.end()) {
    return Status::unimplemented(
        fmt::format("{}: method \"{}\" needs a model that drafts, and Quire has none yet", kFlag,
                    *name),
        "use \"ngram\" or \"suffix\", which look up what was said before");
  }
  return Status::invalid_argument(fmt::format("{}: no method \"{}\"", kFlag, *name),
                                  "use \"ngram\" or \"suffix\"");
}

// The value of `key`, where it is there; it must be in [least, most].
template <typename T>
Status read(const JsonReader& reader, std::string_view key, T least, T most, T& value) {
  QUIRE_ASSIGN_OR_RETURN(const auto number, reader.find_double(key));
  if (!number) return {};
  const bool whole =
      static_cast<double>(static_cast<std::int64_t>(std::clamp(*number, -1e15, 1e15))) == *number;
  const bool fits = *number >= static_cast<double>(least) && *number <= static_cast<double>(most) &&
                    (whole || !std::is_integral_v<T>);
  if (!fits) {
    return Status::invalid_argument(
        fmt::format("{}: {} is {}; expected {} from {} to {}", kFlag, key, *number,
                    std::is_integral_v<T> ? "a whole number" : "a number", least, most));
  }
  value = static_cast<T>(*number);
  return {};
}

// vLLM's rule: where one bound is given, it is the other as well.
Status read_lookup(const JsonReader& reader, SpeculativeConfig& config) {
  constexpr std::int32_t kMost = SpeculativeConfig::kMaxLookup;
  const bool min = reader.contains("prompt_lookup_min");
  const bool max = reader.contains("prompt_lookup_max");
  QUIRE_RETURN_IF_ERROR(read(reader, "prompt_lookup_min", 1, kMost, config.prompt_lookup_min));
  QUIRE_RETURN_IF_ERROR(read(reader, "prompt_lookup_max", 1, kMost, config.prompt_lookup_max));
  if (min && !max) config.prompt_lookup_max = config.prompt_lookup_min;
  if (max && !min) config.prompt_lookup_min = config.prompt_lookup_max;
  if (config.prompt_lookup_min <= config.prompt_lookup_max) return {};
  return Status::invalid_argument(
      fmt::format("{}: prompt_lookup_min {} is above prompt_lookup_max {}", kFlag,
                  config.prompt_lookup_min, config.prompt_lookup_max));
}

Status read_suffix(const JsonReader& reader, SpeculativeConfig& config) {
  QUIRE_RETURN_IF_ERROR(read(reader, "suffix_decoding_max_tree_depth", 2,
                             SpeculativeConfig::kMaxLookup, config.suffix_max_tree_depth));
  QUIRE_RETURN_IF_ERROR(read(reader, "suffix_decoding_max_cached_requests", 0,
                             SpeculativeConfig::kMaxCachedRequests,
                             config.suffix_max_cached_requests));
  QUIRE_RETURN_IF_ERROR(
      read(reader, "suffix_decoding_max_spec_factor", 0.1, 32.0, config.suffix_max_spec_factor));
  return read(reader, "suffix_decoding_min_token_prob", 0.0, 1.0, config.suffix_min_token_prob);
}

// The settings of one method mean nothing to the other.
Status refuse_others(const JsonReader& reader, SpeculativeMethod method) {
  const std::string_view prefix =
      method == SpeculativeMethod::kNgram ? "suffix_decoding_" : "prompt_lookup_";
  for (const auto& member : reader.object()) {
    const std::string_view key(member.key().data(), member.key().size());
    if (!key.starts_with(prefix)) continue;
    return Status::invalid_argument(
        fmt::format("{}: {} is not of method \"{}\"", kFlag, key, speculative_method_name(method)),
        "leave it out");
  }
  return {};
}

}  // namespace

std::string_view speculative_method_name(SpeculativeMethod method) {
  return method == SpeculativeMethod::kNgram ? "ngram" : "suffix";
}

Result<std::optional<SpeculativeConfig>> SpeculativeConfig::parse(std::string_view text) {
  auto parsed = parse_json(text, kFlag);
  if (!parsed.ok()) {
    return Status::invalid_argument(parsed.status().message(),
                                    R"(give a JSON object such as {"method": "ngram", )"
                                    R"("num_speculative_tokens": 5})");
  }
  if (!parsed->is_object()) {
    return Status::invalid_argument(
        fmt::format("{}: expected an object, found {}", kFlag, json_kind_name(*parsed)));
  }
  const JsonReader reader(parsed->as_object(), std::string(kFlag), StatusCode::kInvalidArgument);
  if (reader.object().empty()) return std::optional<SpeculativeConfig>();
  SpeculativeConfig config;
  QUIRE_ASSIGN_OR_RETURN(config.method, parse_method(reader));
  QUIRE_RETURN_IF_ERROR(check_fields(reader, kSpeculativeKeys));
  QUIRE_RETURN_IF_ERROR(refuse_others(reader, config.method));
  QUIRE_RETURN_IF_ERROR(read_lookup(reader, config));
  QUIRE_RETURN_IF_ERROR(read_suffix(reader, config));
  // vLLM's default of this method.
  if (config.method == SpeculativeMethod::kSuffix) {
    config.num_speculative_tokens = std::min(config.suffix_max_tree_depth, kMaxTokens);
  }
  QUIRE_RETURN_IF_ERROR(
      read(reader, "num_speculative_tokens", 1, kMaxTokens, config.num_speculative_tokens));
  if (config.num_speculative_tokens == 0) {
    return Status::invalid_argument(
        fmt::format("{}: num_speculative_tokens is missing", kFlag),
        fmt::format("say how many tokens to guess at most, 1 to {}", kMaxTokens));
  }
  return std::optional(config);
}

std::string SpeculativeConfig::to_text() const {
  std::string text =
      fmt::format("{}, up to {} tokens", speculative_method_name(method), num_speculative_tokens);
  if (method == SpeculativeMethod::kNgram) {
    return text + fmt::format(", after matches of {} to {}", prompt_lookup_min, prompt_lookup_max);
  }
  text += fmt::format(", after matches of up to {}", suffix_max_tree_depth);
  if (suffix_max_cached_requests > 0) {
    text += fmt::format(", also in the last {} outputs of all", suffix_max_cached_requests);
  }
  return text;
}

}  // namespace quire
