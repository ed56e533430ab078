#include "serve/protocols/structured_fields.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace quire {
namespace {

Status expected(std::string_view field, std::string_view what, const json::value& found) {
  return Status::invalid_argument(
      fmt::format("{}: expected {}, found {}", field, what, json_kind_name(found)));
}

// Of a key of structured_outputs.
json::object schema_of(std::string_view key) {
  if (key == "json" || key == "structural_tag") return {{"type", {"object", "string"}}};
  if (key == "choice") {
    return {{"type", "array"}, {"items", {{"type", "string"}}}, {"minItems", 1}};
  }
  return {{"type", "string"}};
}

// What a constraint may be called, where it stands alone.
struct AloneField {
  std::string_view name;
  std::string_view key;  // of structured_outputs
};
constexpr auto kAloneFields = std::to_array<AloneField>({{"guided_json", "json"},
                                                         {"guided_regex", "regex"},
                                                         {"guided_choice", "choice"},
                                                         {"guided_grammar", "grammar"},
                                                         {"json_schema", "json"},
                                                         {"regex", "regex"},
                                                         {"grammar", "grammar"},
                                                         {"ebnf", "grammar"},
                                                         {"structural_tag", "structural_tag"}});
constexpr std::string_view kWhitespaceField = "guided_whitespace_pattern";

constexpr auto kFieldNames = [] {
  std::array<std::string_view, kAloneFields.size() + 1> names{};
  for (std::size_t i = 0; i < kAloneFields.size(); ++i) names[i] = kAloneFields[i].name;
  names.back() = kWhitespaceField;
  return names;
}();

// Null, "", [] and {} say nothing, as in other fields. An empty text constrains nothing either, so
// that clients that send each field of a form may leave some blank.
bool says_no_constraint(const json::value& value) {
  return value.is_null() || (value.is_string() && value.get_string().empty()) ||
         (value.is_array() && value.get_array().empty());
}

Status read_schema(const json::object& from, std::string_view field, StructuredOutputsParams& to) {
  const json::value* schema = from.if_contains("schema");
  const std::string where = fmt::format("{}.schema", field);
  if (schema == nullptr || schema->is_null()) {
    return Status::invalid_argument(fmt::format("{}: the JSON Schema is missing", where));
  }
  if (!schema->is_object()) return expected(where, "an object", *schema);
  // Held to either way.
  const json::value* strict = from.if_contains("strict");
  if (strict != nullptr && !strict->is_null() && !strict->is_bool()) {
    return expected(fmt::format("{}.strict", field), "true or false", *strict);
  }
  to.json = json::serialize(*schema);
  to.field = where;
  return {};
}

Result<SharedConstraint> checked(StructuredOutputsParams params) {
  QUIRE_RETURN_IF_ERROR(params.validate());
  return std::make_shared<const StructuredOutputsParams>(std::move(params));
}

}  // namespace

Result<SharedConstraint> read_response_format(const json::value& value, std::string_view field,
                                              bool flat) {
  if (!value.is_object()) return expected(field, "an object", value);
  const json::object& format = value.get_object();
  const json::value* type = format.if_contains("type");
  const auto is = [type](std::string_view name) {
    return type != nullptr && type->is_string() && type->get_string() == name;
  };
  StructuredOutputsParams params;
  params.field = field;
  if (is("text")) return SharedConstraint();
  if (is("json_object")) {
    // llama.cpp's form has a schema besides.
    const json::value* schema = format.if_contains("schema");
    if (schema == nullptr || schema->is_null()) {
      params.json_object = true;
    } else {
      QUIRE_RETURN_IF_ERROR(read_schema(format, field, params));
    }
  } else if (is("json_schema") && flat) {
    QUIRE_RETURN_IF_ERROR(read_schema(format, field, params));
  } else if (is("json_schema")) {
    const json::value* inner = format.if_contains("json_schema");
    const std::string name = fmt::format("{}.json_schema", field);
    if (inner == nullptr) return Status::invalid_argument(fmt::format("{}: it is missing", name));
    if (!inner->is_object()) return expected(name, "an object", *inner);
    QUIRE_RETURN_IF_ERROR(read_schema(inner->get_object(), name, params));
  } else if (is("structural_tag") && !flat) {
    params.structural_tag = json::serialize(value);
  } else {
    return Status::invalid_argument(
        fmt::format("{}.type: expected {}", field,
                    flat ? R"("text", "json_object" or "json_schema")"
                         : R"("text", "json_object", "json_schema" or "structural_tag")"));
  }
  return checked(std::move(params));
}

std::span<const std::string_view> constraint_field_names() { return kFieldNames; }

Status read_constraint_fields(const JsonReader& fields, SamplingParams& params) {
  // What the defaults have gives way.
  SharedConstraint found =
      fields.contains("structured_outputs") ? params.structured_outputs : nullptr;
  const auto add = [&found](SharedConstraint constraint) -> Status {
    if (constraint == nullptr) return {};
    if (found != nullptr) {
      return Status::invalid_argument(
          fmt::format("{}: {} constrains the text already", constraint->field, found->field),
          "give one of them");
    }
    found = std::move(constraint);
    return {};
  };
  if (const json::value* format = fields.find("response_format");
      format != nullptr && !says_no_constraint(*format)) {
    QUIRE_ASSIGN_OR_RETURN(auto constraint,
                           read_response_format(*format, "response_format", /*flat=*/false));
    QUIRE_RETURN_IF_ERROR(add(std::move(constraint)));
  }
  for (const AloneField& each : kAloneFields) {
    const json::value* value = fields.find(each.name);
    if (value == nullptr || says_no_constraint(*value)) continue;
    StructuredOutputsParams alone;
    alone.field = each.name;
    QUIRE_RETURN_IF_ERROR(read_constraint(each.key, *value, each.name, alone));
    QUIRE_ASSIGN_OR_RETURN(auto constraint, checked(std::move(alone)));
    QUIRE_RETURN_IF_ERROR(add(std::move(constraint)));
  }
  const json::value* whitespace = fields.find(kWhitespaceField);
  if (whitespace != nullptr && !says_no_constraint(*whitespace)) {
    if (!whitespace->is_string()) return expected(kWhitespaceField, "a string", *whitespace);
    if (found == nullptr || (!found->json && !found->json_object)) {
      return Status::invalid_argument(
          fmt::format("{}: there is no JSON whose white space it could be", kWhitespaceField));
    }
    StructuredOutputsParams with = *found;
    with.whitespace_pattern = std::string(whitespace->get_string());
    QUIRE_ASSIGN_OR_RETURN(found, checked(std::move(with)));
  }
  if (found != nullptr) params.structured_outputs = std::move(found);
  return {};
}

json::object structured_outputs_schema() {
  const json::object flag = {{"type", "boolean"}};
  return {{"type", "object"},
          {"properties",
           {{"json", schema_of("json")},
            {"regex", schema_of("regex")},
            {"choice", schema_of("choice")},
            {"grammar", schema_of("grammar")},
            {"json_object", flag},
            {"structural_tag", schema_of("structural_tag")},
            {"disable_any_whitespace", flag},
            {"disable_additional_properties", flag},
            {"whitespace_pattern", schema_of("regex")}}},
          {"additionalProperties", false}};
}

json::object constraint_properties() {
  json::object properties;
  properties["response_format"] = {
      {"type", "object"},
      {"required", json::array{"type"}},
      {"description", "What the text must be, as OpenAI's chat completions say it"}};
  for (const AloneField& each : kAloneFields) {
    json::object property = schema_of(each.key);
    property["description"] = "Another name of structured_outputs' constraint of the kind";
    properties[each.name] = std::move(property);
  }
  json::object whitespace = schema_of("regex");
  whitespace["description"] = "Another name of structured_outputs' whitespace_pattern";
  properties[kWhitespaceField] = std::move(whitespace);
  return properties;
}

}  // namespace quire
