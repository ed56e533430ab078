#include "serve/protocols/sampling_fields.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "serve/protocols/structured_fields.h"

namespace quire {
namespace {

using Kind = SamplingFieldKind;

template <typename T>
constexpr Kind kind_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return Kind::kBoolean;
  } else if constexpr (std::is_same_v<T, double>) {
    return Kind::kNumber;
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return Kind::kStrings;
  } else if constexpr (std::is_same_v<T, std::vector<TokenId>>) {
    return Kind::kTokenIds;
  } else if constexpr (std::is_same_v<T, std::vector<LogitBias>>) {
    return Kind::kBiases;
  } else if constexpr (std::is_same_v<T, SharedConstraint>) {
    return Kind::kStructuredOutputs;
  } else if constexpr (std::is_same_v<T, EarlyStopping>) {
    return Kind::kEarlyStopping;
  } else {
    return Kind::kInteger;
  }
}

// For each type of a parameter: sets `target` where the object has the field.
Status read_field(const JsonReader& object, const SamplingParameter<bool>& row, bool& target) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, object.find_bool(row.name));
  if (value) target = *value;
  return {};
}

Status read_field(const JsonReader& object, const SamplingParameter<double>& row, double& target) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, object.find_double(row.name));
  if (value) target = *value;
  return {};
}

constexpr std::string_view kNeverWord = "never";

Status read_field(const JsonReader& object, const SamplingParameter<EarlyStopping>& row,
                  EarlyStopping& target) {
  const json::value* value = object.find(row.name);
  if (value == nullptr) return {};
  if (value->is_string() && value->get_string() == kNeverWord) {
    target = EarlyStopping::kNever;
  } else if (value->is_bool()) {
    target = value->get_bool() ? EarlyStopping::kAtOnce : EarlyStopping::kWhenUnlikely;
  } else {
    return object.type_error(row.name, "true, false or \"never\"");
  }
  return {};
}

template <typename T>  // std::int64_t, or an optional of it
Status read_field(const JsonReader& object, const SamplingParameter<T>& row, T& target) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, object.find_int(row.name));
  if (value) target = *value;
  return {};
}

Status read_field(const JsonReader& object,
                  const SamplingParameter<std::optional<std::uint64_t>>& row,
                  std::optional<std::uint64_t>& target) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, object.find_int(row.name));
  if (!value) return {};
  if (*value < 0) {
    return Status::invalid_argument(
        fmt::format("{}: {}: {} is not an integer >= 0", object.where(), row.name, *value));
  }
  target = static_cast<std::uint64_t>(*value);
  return {};
}

Status read_field(const JsonReader& object, const SamplingParameter<std::vector<std::string>>& row,
                  std::vector<std::string>& target) {
  const json::value* value = object.find(row.name);
  if (value == nullptr) return {};
  std::vector<std::string> strings;
  if (value->is_string()) {
    strings.emplace_back(value->get_string());
  } else if (value->is_array()) {
    for (const json::value& item : value->get_array()) {
      if (!item.is_string()) return object.type_error(row.name, "a string or an array of strings");
      strings.emplace_back(item.get_string());
    }
  } else {
    return object.type_error(row.name, "a string or an array of strings");
  }
  target = std::move(strings);
  return {};
}

Status read_field(const JsonReader& object, const SamplingParameter<std::vector<TokenId>>& row,
                  std::vector<TokenId>& target) {
  if (!object.contains(row.name)) return {};
  QUIRE_ASSIGN_OR_RETURN(target, read_token_ids(object, row.name));
  if (static_cast<double>(target.size()) >= row.least) return {};
  return Status::invalid_argument(
      fmt::format("{}: {}: expected at least one token id", object.where(), row.name));
}

Status read_field(const JsonReader& object, const SamplingParameter<std::vector<LogitBias>>& row,
                  std::vector<LogitBias>& target) {
  const std::string_view name = row.name;
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
  target = std::move(biases);
  return {};
}

Status read_field(const JsonReader& object, const SamplingParameter<SharedConstraint>& row,
                  SharedConstraint& target) {
  const json::value* value = object.find(row.name);
  if (value == nullptr) return {};
  QUIRE_ASSIGN_OR_RETURN(auto params, read_structured_outputs(*value, row.name));
  target = std::make_shared<const StructuredOutputsParams>(std::move(params));
  return {};
}

template <typename T>
json::value show_field(const T& value) {
  if constexpr (std::is_same_v<T, std::optional<std::int64_t>> ||
                std::is_same_v<T, std::optional<std::uint64_t>>) {
    return value ? json::value(*value) : json::value();
  } else if constexpr (std::is_same_v<T, std::vector<LogitBias>>) {
    json::object biases;
    for (const LogitBias& each : value) {
      biases[std::to_string(each.token_id)] = static_cast<double>(each.bias);
    }
    return value.empty() ? json::value() : json::value(std::move(biases));
  } else if constexpr (std::is_same_v<T, SharedConstraint>) {
    return value == nullptr ? json::value() : json::value(show_structured_outputs(*value));
  } else if constexpr (std::is_same_v<T, EarlyStopping>) {
    if (value == EarlyStopping::kNever) return json::value(json::string(kNeverWord));
    return json::value(value == EarlyStopping::kAtOnce);
  } else if constexpr (requires { value.begin(); }) {
    return value.empty() ? json::value() : json::value(json::array(value.begin(), value.end()));
  } else {
    return value;
  }
}

// A whole number without a fraction: 1, not 1.0.
json::value plain_number(double value) {
  if (value == std::floor(value)) return static_cast<std::int64_t>(value);
  return value;
}

template <typename T>
json::object rules_of(const SamplingParameter<T>& row) {
  json::object rules;
  const T standard = SamplingParams().*row.member;
  if constexpr (std::is_same_v<T, bool>) {
    rules["default"] = standard;
  } else if constexpr (std::is_same_v<T, EarlyStopping>) {
    rules["default"] = show_field(standard);
  } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::int64_t>) {
    if (!row.default_varies) rules["default"] = plain_number(static_cast<double>(standard));
  }
  if constexpr (kind_of<T>() == Kind::kNumber || kind_of<T>() == Kind::kInteger) {
    if (std::isfinite(row.least)) {
      rules[row.above ? "exclusiveMinimum" : "minimum"] = plain_number(row.least);
    }
    if (std::isfinite(row.most)) rules["maximum"] = plain_number(row.most);
  }
  return rules;
}

// The field of a row of the table; nothing where it is not for users.
template <std::size_t kRow>
std::optional<SamplingField> make_field() {
  constexpr const auto& row = std::get<kRow>(kSamplingTable);
  if constexpr (row.description.empty()) {
    return std::nullopt;
  } else {
    using T = typename std::remove_cvref_t<decltype(row)>::Value;
    return SamplingField{.name = row.name,
                         .kind = kind_of<T>(),
                         .description = row.description,
                         .rules = rules_of(row),
                         .read =
                             [](const JsonReader& object, SamplingParams& params) {
                               const auto& field = std::get<kRow>(kSamplingTable);
                               return read_field(object, field, params.*field.member);
                             },
                         .show =
                             [](const SamplingParams& params) {
                               return show_field(params.*std::get<kRow>(kSamplingTable).member);
                             }};
  }
}

std::vector<SamplingField> make_fields() {
  std::vector<SamplingField> fields;
  const auto add = [&](std::optional<SamplingField> field) {
    if (field) fields.push_back(*std::move(field));
  };
  [&]<std::size_t... kRow>(std::index_sequence<kRow...>) { (add(make_field<kRow>()), ...); }
  (std::make_index_sequence<kNumSamplingParameters>());
  return fields;
}

// Those that a model recommends are for tokens that are drawn.
void drop_default(const JsonReader& object, std::string_view name, double none, double& penalty) {
  if (!object.contains(name)) penalty = none;
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
              {"additionalProperties",
               {{"type", "number"},
                {"minimum", plain_number(-SamplingParams::kMaxLogitBias)},
                {"maximum", plain_number(SamplingParams::kMaxLogitBias)}}}};
    case Kind::kStructuredOutputs:
      return structured_outputs_schema();
    case Kind::kEarlyStopping:
      return {{"enum", json::array{true, false, json::string(kNeverWord)}}};
  }
  return {};
}

}  // namespace

void drop_default_penalties(const JsonReader& object, SamplingParams& params) {
  const SamplingParams none;
  drop_default(object, "repetition_penalty", none.repetition_penalty, params.repetition_penalty);
  drop_default(object, "presence_penalty", none.presence_penalty, params.presence_penalty);
  drop_default(object, "frequency_penalty", none.frequency_penalty, params.frequency_penalty);
}

std::span<const SamplingField> sampling_fields() {
  static const std::vector<SamplingField> kFields = make_fields();
  return kFields;
}

Status read_sampling_fields(const JsonReader& object, SamplingParams& params) {
  for (const SamplingField& field : sampling_fields()) {
    QUIRE_RETURN_IF_ERROR(field.read(object, params));
  }
  if (params.is_beam_search()) drop_default_penalties(object, params);
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
