#include "serve/protocols/sampling_fields.h"

#include <array>
#include <charconv>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

namespace quire {
namespace {

using Kind = SamplingFieldKind;

template <auto Member>
Status read_number(const JsonReader& object, std::string_view name, SamplingParams& params) {
  using T = std::remove_reference_t<decltype(params.*Member)>;
  if constexpr (std::is_same_v<T, bool>) {
    QUIRE_ASSIGN_OR_RETURN(const auto value, object.find_bool(name));
    if (value) params.*Member = *value;
  } else if constexpr (std::is_same_v<T, double>) {
    QUIRE_ASSIGN_OR_RETURN(const auto value, object.find_double(name));
    if (value) params.*Member = *value;
  } else {
    QUIRE_ASSIGN_OR_RETURN(const auto value, object.find_int(name));
    if (value) params.*Member = *value;
  }
  return {};
}

Status read_seed(const JsonReader& object, std::string_view name, SamplingParams& params) {
  QUIRE_ASSIGN_OR_RETURN(const auto seed, object.find_int(name));
  if (!seed) return {};
  if (*seed < 0) {
    return Status::invalid_argument(
        fmt::format("{}: {}: {} is not an integer >= 0", object.where(), name, *seed));
  }
  params.seed = static_cast<std::uint64_t>(*seed);
  return {};
}

template <auto Member>
Status read_strings(const JsonReader& object, std::string_view name, SamplingParams& params) {
  const json::value* value = object.find(name);
  if (value == nullptr) return {};
  std::vector<std::string> strings;
  if (value->is_string()) {
    strings.emplace_back(value->get_string());
  } else if (value->is_array()) {
    for (const json::value& item : value->get_array()) {
      if (!item.is_string()) return object.type_error(name, "a string or an array of strings");
      strings.emplace_back(item.get_string());
    }
  } else {
    return object.type_error(name, "a string or an array of strings");
  }
  params.*Member = std::move(strings);
  return {};
}

template <auto Member>
Status read_ids(const JsonReader& object, std::string_view name, SamplingParams& params) {
  if (!object.contains(name)) return {};
  QUIRE_ASSIGN_OR_RETURN(params.*Member, read_token_ids(object, name));
  return {};
}

// An empty list would leave nothing to choose.
Status read_allowed_ids(const JsonReader& object, std::string_view name, SamplingParams& params) {
  QUIRE_RETURN_IF_ERROR(read_ids<&SamplingParams::allowed_token_ids>(object, name, params));
  if (!object.contains(name) || !params.allowed_token_ids.empty()) return {};
  return Status::invalid_argument(
      fmt::format("{}: {}: expected at least one token id", object.where(), name));
}

Status read_biases(const JsonReader& object, std::string_view name, SamplingParams& params) {
  const json::value* value = object.find(name);
  if (value == nullptr) return {};
  if (!value->is_object()) return object.type_error(name, "an object of token ids and numbers");
  std::vector<LogitBias> biases;
  for (const auto& entry : value->get_object()) {
    const std::string_view key = entry.key();
    TokenId id = 0;
    const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (code != std::errc() || end != key.data() + key.size() || id < 0) {
      return Status::invalid_argument(
          fmt::format("{}: {}: \"{}\" is not a token id", object.where(), name, key));
    }
    if (!entry.value().is_number()) {
      return Status::invalid_argument(fmt::format("{}: {}: {}: expected a number, found {}",
                                                  object.where(), name, key,
                                                  json_kind_name(entry.value())));
    }
    biases.push_back({id, static_cast<float>(entry.value().to_number<double>())});
  }
  params.logit_bias = std::move(biases);
  return {};
}

template <auto Member>
json::value show(const SamplingParams& params) {
  const auto& value = params.*Member;
  using T = std::remove_cvref_t<decltype(value)>;
  if constexpr (std::is_same_v<T, std::optional<std::int64_t>> ||
                std::is_same_v<T, std::optional<std::uint64_t>>) {
    return value ? json::value(*value) : json::value();
  } else if constexpr (std::is_same_v<T, std::vector<LogitBias>>) {
    json::object biases;
    for (const LogitBias& each : value) {
      biases[std::to_string(each.token_id)] = static_cast<double>(each.bias);
    }
    return value.empty() ? json::value() : json::value(std::move(biases));
  } else if constexpr (requires { value.begin(); }) {
    return value.empty() ? json::value() : json::value(json::array(value.begin(), value.end()));
  } else {
    return value;
  }
}

// The members of a value's type in JSON Schema.
json::object type_of(Kind kind) {
  const json::object string = {{"type", "string"}, {"minLength", 1}};
  switch (kind) {
    case Kind::kInteger:
      return {{"type", "integer"}};
    case Kind::kNumber:
      return {{"type", "number"}};
    case Kind::kBoolean:
      return {{"type", "boolean"}};
    case Kind::kStrings:
      return {{"anyOf", {string, {{"type", "array"}, {"items", string}}}}};
    case Kind::kTokenIds:
      return {{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}};
    case Kind::kBiases:
      return {{"type", "object"},
              {"propertyNames", {{"pattern", "^[0-9]+$"}}},
              {"additionalProperties", {{"type", "number"}, {"minimum", -100}, {"maximum", 100}}}};
  }
  return {};
}

}  // namespace

std::span<const SamplingField> sampling_fields() {
  using P = SamplingParams;
  static const std::array<SamplingField, 21> kFields = {{
      {"n",
       Kind::kInteger,
       "Outputs for the prompt; number i draws with seed + i",
       {{"default", 1}, {"minimum", 1}, {"maximum", 128}},
       read_number<&P::n>,
       show<&P::n>},
      {"presence_penalty",
       Kind::kNumber,
       "Taken from each token that the output holds",
       {{"default", 0}, {"minimum", -2}, {"maximum", 2}},
       read_number<&P::presence_penalty>,
       show<&P::presence_penalty>},
      {"frequency_penalty",
       Kind::kNumber,
       "Taken from each token, for each time that the output holds it",
       {{"default", 0}, {"minimum", -2}, {"maximum", 2}},
       read_number<&P::frequency_penalty>,
       show<&P::frequency_penalty>},
      {"repetition_penalty",
       Kind::kNumber,
       "Divides the logits of tokens in prompt or output; above 1 discourages them",
       {{"default", 1}, {"exclusiveMinimum", 0}},
       read_number<&P::repetition_penalty>,
       show<&P::repetition_penalty>},
      {"temperature",
       Kind::kNumber,
       "0 takes the best token",
       {{"default", 1}, {"minimum", 0}, {"maximum", 1000}},
       read_number<&P::temperature>,
       show<&P::temperature>},
      {"top_p",
       Kind::kNumber,
       "Sample among the best tokens that make up this probability",
       {{"default", 1}, {"exclusiveMinimum", 0}, {"maximum", 1}},
       read_number<&P::top_p>,
       show<&P::top_p>},
      {"top_k",
       Kind::kInteger,
       "Sample among the k best tokens; 0 or -1: all",
       {{"default", 0}, {"minimum", -1}},
       read_number<&P::top_k>,
       show<&P::top_k>},
      {"min_p",
       Kind::kNumber,
       "Drop tokens below this share of the best one's probability",
       {{"default", 0}, {"minimum", 0}, {"maximum", 1}},
       read_number<&P::min_p>,
       show<&P::min_p>},
      {"seed",
       Kind::kInteger,
       "Of the request's own random stream (default: from --seed)",
       {{"minimum", 0}},
       read_seed,
       show<&P::seed>},
      {"stop", Kind::kStrings, "Texts that end the output", json::object(), read_strings<&P::stop>,
       show<&P::stop>},
      {"stop_token_ids", Kind::kTokenIds, "Token ids that end the output", json::object(),
       read_ids<&P::stop_token_ids>, show<&P::stop_token_ids>},
      {"bad_words", Kind::kStrings, "Words that the output must not hold", json::object(),
       read_strings<&P::bad_words>, show<&P::bad_words>},
      {"include_stop_str_in_output",
       Kind::kBoolean,
       "Keep the stop text at the output's end",
       {{"default", false}},
       read_number<&P::include_stop_str_in_output>,
       show<&P::include_stop_str_in_output>},
      {"ignore_eos",
       Kind::kBoolean,
       "Do not end at an end-of-sequence token",
       {{"default", false}},
       read_number<&P::ignore_eos>,
       show<&P::ignore_eos>},
      {"max_tokens",
       Kind::kInteger,
       "Output tokens at most (default: up to --max-model-len)",
       {{"minimum", 1}},
       read_number<&P::max_tokens>,
       show<&P::max_tokens>},
      {"min_tokens",
       Kind::kInteger,
       "Output tokens before one may end it; at most max_tokens",
       {{"default", 0}, {"minimum", 0}},
       read_number<&P::min_tokens>,
       show<&P::min_tokens>},
      {"logprobs",
       Kind::kInteger,
       "Log probabilities of output tokens, and of that many alternatives (see --max-logprobs)",
       {{"minimum", 0}},
       read_number<&P::logprobs>,
       show<&P::logprobs>},
      {"prompt_logprobs",
       Kind::kInteger,
       "Log probabilities of prompt tokens, and of that many alternatives",
       {{"minimum", 0}},
       read_number<&P::prompt_logprobs>,
       show<&P::prompt_logprobs>},
      {"skip_special_tokens",
       Kind::kBoolean,
       "Leave special tokens out of the text",
       {{"default", true}},
       read_number<&P::skip_special_tokens>,
       show<&P::skip_special_tokens>},
      {"logit_bias", Kind::kBiases, "Added to the logits of tokens: {\"ID\": BIAS, ...}",
       json::object(), read_biases, show<&P::logit_bias>},
      {"allowed_token_ids", Kind::kTokenIds, "Sample only these tokens", json::object(),
       read_allowed_ids, show<&P::allowed_token_ids>},
  }};
  return kFields;
}

Status read_sampling_fields(const JsonReader& object, SamplingParams& params) {
  for (const SamplingField& field : sampling_fields()) {
    QUIRE_RETURN_IF_ERROR(field.read(object, field.name, params));
  }
  return {};
}

json::object sampling_properties() {
  json::object properties;
  for (const SamplingField& field : sampling_fields()) {
    json::object property = type_of(field.kind);
    property["description"] = field.description;
    for (const auto& rule : field.rules) property[rule.key()] = rule.value();
    properties[field.name] = std::move(property);
  }
  return properties;
}

}  // namespace quire
