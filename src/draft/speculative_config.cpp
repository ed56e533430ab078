#include "draft/speculative_config.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/printable.h"
#include "draft/token_tree.h"

namespace quire {
namespace {

constexpr std::string_view kFlag = "--speculative-config";

constexpr std::array<std::string_view, 11> kSpeculativeKeys = {
    "method",
    "model",
    "num_speculative_tokens",
    "speculative_token_tree",
    "prompt_lookup_min",
    "prompt_lookup_max",
    "suffix_decoding_max_tree_depth",
    "suffix_decoding_max_cached_requests",
    "suffix_decoding_max_spec_factor",
    "suffix_decoding_min_token_prob",
    "suffix_decoding_max_tree_width"};

// Those that there are, by their name, and how the keys begin that only some have.
struct Method {
  SpeculativeMethod method;
  std::string_view name;
  std::array<std::string_view, 2> keys;  // empty: it has none

  bool owns(std::string_view key) const {
    return std::ranges::any_of(
        keys, [&](std::string_view begin) { return !begin.empty() && key.starts_with(begin); });
  }
};
constexpr std::string_view kTreeKey = "speculative_token_tree";
constexpr std::array<Method, 7> kMethods = {{
    {SpeculativeMethod::kNgram, "ngram", {"prompt_lookup_", ""}},
    {SpeculativeMethod::kSuffix, "suffix", {"suffix_decoding_", ""}},
    {SpeculativeMethod::kDraftModel, "draft_model", {"model", kTreeKey}},
    {SpeculativeMethod::kMtp, "mtp", {"", kTreeKey}},
    {SpeculativeMethod::kEagle, "eagle", {"model", kTreeKey}},
    {SpeculativeMethod::kEagle3, "eagle3", {"model", kTreeKey}},
    {SpeculativeMethod::kMedusa, "medusa", {"model", kTreeKey}},
}};
constexpr std::string_view kUseOneOf =
    "use \"ngram\" or \"suffix\", which look up what was said before, \"draft_model\", \"eagle\", "
    "\"eagle3\", \"medusa\" or \"mtp\"";

// vLLM's methods that need layers made for the model that they draft for.
constexpr std::array<std::string_view, 3> kMethodsOfHeads = {"mlp_speculator", "dflash",
                                                             "qwen3_next_mtp"};
// Its names for MTP by family, which it has given up for one.
constexpr std::array<std::string_view, 2> kMtpNames = {"deepseek_mtp", "glm4_moe_mtp"};

Result<SpeculativeMethod> parse_method(const JsonReader& reader) {
  QUIRE_ASSIGN_OR_RETURN(const auto name, reader.find_string("method"));
  // vLLM's rule: a model without a method drafts.
  if (!name && reader.contains("model")) return SpeculativeMethod::kDraftModel;
  if (!name) {
    return Status::invalid_argument(fmt::format("{}: method is missing", kFlag),
                                    std::string(kUseOneOf));
  }
  if (std::ranges::find(kMtpNames, *name) != kMtpNames.end()) return SpeculativeMethod::kMtp;
  const auto found = std::ranges::find(kMethods, *name, &Method::name);
  if (found != kMethods.end()) return found->method;
  if (std::ranges::find(kMethodsOfHeads, *name) != kMethodsOfHeads.end()) {
    return Status::unimplemented(
        fmt::format("{}: method \"{}\" needs layers made for the model that they draft for, which "
                    "Quire does not read yet",
                    kFlag, *name),
        std::string(kUseOneOf));
  }
  return Status::invalid_argument(fmt::format("{}: no method {}", kFlag, printable(*name)),
                                  std::string(kUseOneOf));
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
  QUIRE_RETURN_IF_ERROR(
      read(reader, "suffix_decoding_min_token_prob", 0.0, 1.0, config.suffix_min_token_prob));
  return read(reader, "suffix_decoding_max_tree_width", 1, SpeculativeConfig::kMaxTreeWidth,
              config.suffix_max_tree_width);
}

// The settings of one method mean nothing to the others.
Status refuse_others(const JsonReader& reader, const Method& method) {
  for (const auto& member : reader.object()) {
    const std::string_view key(member.key().data(), member.key().size());
    const auto owns = [&](const Method& each) { return each.owns(key); };
    if (std::ranges::none_of(kMethods, owns) || method.owns(key)) continue;
    return Status::invalid_argument(
        fmt::format("{}: {} is not of method \"{}\"", kFlag, key, method.name), "leave it out");
  }
  return {};
}

const Method& method_of(SpeculativeMethod method) {
  return *std::ranges::find(kMethods, method, &Method::method);
}

Status read_model(const JsonReader& reader, SpeculativeConfig& config) {
  if (!method_of(config.method).owns("model")) return {};
  QUIRE_ASSIGN_OR_RETURN(auto model, reader.find_string("model"));
  if (!model || model->empty()) {
    return Status::invalid_argument(fmt::format("{}: model is missing", kFlag),
                                    "name the model that drafts, as --model is named");
  }
  config.model = std::move(*model);
  return {};
}

// Medusa's heads guess each place apart, so that further choices cost no more than their rows.
// Those that guess from what they have guessed go on behind their first choices alone: to continue
// another one would be a row of the drafter's more.
Status read_tree(const JsonReader& reader, SpeculativeConfig& config) {
  if (const json::value* const tree = reader.find(kTreeKey)) {
    QUIRE_ASSIGN_OR_RETURN(config.token_tree,
                           parse_token_tree(*tree, fmt::format("{}: {}", kFlag, kTreeKey)));
    config.num_speculative_tokens = static_cast<std::int32_t>(config.token_tree.size());
    if (config.method != SpeculativeMethod::kMedusa &&
        !continues_first_choices(config.token_tree)) {
      return Status::unimplemented(
          fmt::format("{}: {}: method \"{}\" continues first choices alone", kFlag, kTreeKey,
                      method_of(config.method).name),
          "let each path be of zeros but for its last choice: [(0,), (1,), (0, 0), (0, 1)]");
    }
  } else if (config.method == SpeculativeMethod::kMedusa) {
    config.token_tree = likely_token_tree(kMaxTreeDrafts);
  }
  return {};
}

}  // namespace

std::string_view speculative_method_name(SpeculativeMethod method) {
  return method_of(method).name;
}

std::int32_t SpeculativeConfig::max_draft_paths() const {
  return token_tree.empty() ? suffix_max_tree_width : num_leaves(token_tree);
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
  QUIRE_RETURN_IF_ERROR(refuse_others(reader, method_of(config.method)));
  QUIRE_RETURN_IF_ERROR(read_lookup(reader, config));
  QUIRE_RETURN_IF_ERROR(read_suffix(reader, config));
  QUIRE_RETURN_IF_ERROR(read_model(reader, config));
  QUIRE_RETURN_IF_ERROR(read_tree(reader, config));
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
  if (computes()) {
    text += method == SpeculativeMethod::kMtp ? ", by the checkpoint's own layer"
                                              : fmt::format(", by {}", printable(model));
    if (max_draft_paths() > 1) text += fmt::format(", on up to {} paths", max_draft_paths());
    return text;
  }
  text += fmt::format(", after matches of up to {}", suffix_max_tree_depth);
  if (suffix_max_tree_width > 1) text += fmt::format(", on up to {} paths", suffix_max_tree_width);
  if (suffix_max_cached_requests > 0) {
    text += fmt::format(", also in the last {} outputs of all", suffix_max_cached_requests);
  }
  return text;
}

}  // namespace quire
