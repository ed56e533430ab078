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

Result<std::string> text_of(const json::value& value, std::string_view field) {
  if (!value.is_string()) return expected(field, "a string", value);
  return std::string(value.get_string());
}

// JSON as itself or as its text.
Result<std::string> json_text(const json::value& value, std::string_view field) {
  if (value.is_object()) return json::serialize(value);
  if (value.is_string()) return std::string(value.get_string());
  return expected(field, "an object, or a string that holds one", value);
}

Result<std::vector<std::string>> texts_of(const json::value& value, std::string_view field) {
  std::vector<std::string> texts;
  if (!value.is_array()) return expected(field, "an array of strings", value);
  if (value.get_array().empty()) {
    return Status::invalid_argument(fmt::format("{}: expected at least one text", field));
  }
  for (const json::value& item : value.get_array()) {
    if (!item.is_string()) return expected(field, "an array of strings", item);
    texts.emplace_back(item.get_string());
  }
  return texts;
}

Result<bool> flag_of(const json::value& value, std::string_view field) {
  if (!value.is_bool()) return expected(field, "true or false", value);
  return value.get_bool();
}

// What a constraint may be called, where it stands alone.
enum class Form { kJson, kRegex, kChoice, kGrammar, kTag };

Status take(Form form, const json::value& value, std::string_view field,
            StructuredOutputsParams& to) {
  switch (form) {
    case Form::kJson: {
      QUIRE_ASSIGN_OR_RETURN(to.json, json_text(value, field));
      return {};
    }
    case Form::kRegex: {
      QUIRE_ASSIGN_OR_RETURN(to.regex, text_of(value, field));
      return {};
    }
    case Form::kChoice: {
      QUIRE_ASSIGN_OR_RETURN(to.choice, texts_of(value, field));
      return {};
    }
    case Form::kGrammar: {
      QUIRE_ASSIGN_OR_RETURN(to.grammar, text_of(value, field));
      return {};
    }
    case Form::kTag: {
      QUIRE_ASSIGN_OR_RETURN(to.structural_tag, json_text(value, field));
      return {};
    }
  }
  return {};
}

json::object schema_of(Form form) {
  switch (form) {
    case Form::kJson:
    case Form::kTag:
      return {{"type", {"object", "string"}}};
    case Form::kChoice:
      return {{"type", "array"}, {"items", {{"type", "string"}}}, {"minItems", 1}};
    case Form::kRegex:
    case Form::kGrammar:
      break;
  }
  return {{"type", "string"}};
}

struct AloneField {
  std::string_view name;
  Form form;
};
constexpr auto kAloneFields = std::to_array<AloneField>({{"guided_json", Form::kJson},
                                                         {"guided_regex", Form::kRegex},
                                                         {"guided_choice", Form::kChoice},
                                                         {"guided_grammar", Form::kGrammar},
                                                         {"json_schema", Form::kJson},
                                                         {"regex", Form::kRegex},
                                                         {"grammar", Form::kGrammar},
                                                         {"ebnf", Form::kGrammar},
                                                         {"structural_tag", Form::kTag}});
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

Result<SharedConstraint> read_structured_outputs(const json::value& value, std::string_view field) {
  if (!value.is_object()) return expected(field, "an object", value);
  StructuredOutputsParams params;
  params.field = field;
  for (const auto& entry : value.get_object()) {
    const std::string_view key = entry.key();
    const json::value& given = entry.value();
    const std::string name = fmt::format("{}.{}", field, key);
    if (given.is_null()) continue;
    if (key == "json") {
      QUIRE_RETURN_IF_ERROR(take(Form::kJson, given, name, params));
    } else if (key == "regex") {
      QUIRE_RETURN_IF_ERROR(take(Form::kRegex, given, name, params));
    } else if (key == "choice") {
      QUIRE_RETURN_IF_ERROR(take(Form::kChoice, given, name, params));
    } else if (key == "grammar") {
      QUIRE_RETURN_IF_ERROR(take(Form::kGrammar, given, name, params));
    } else if (key == "structural_tag") {
      QUIRE_RETURN_IF_ERROR(take(Form::kTag, given, name, params));
    } else if (key == "json_object") {
      QUIRE_ASSIGN_OR_RETURN(params.json_object, flag_of(given, name));
    } else if (key == "disable_any_whitespace") {
      QUIRE_ASSIGN_OR_RETURN(params.disable_any_whitespace, flag_of(given, name));
    } else if (key == "disable_additional_properties") {
      QUIRE_ASSIGN_OR_RETURN(params.disable_additional_properties, flag_of(given, name));
    } else if (key == "whitespace_pattern") {
      QUIRE_ASSIGN_OR_RETURN(params.whitespace_pattern, text_of(given, name));
    } else if (key == "disable_fallback") {
      QUIRE_RETURN_IF_ERROR(flag_of(given, name).status());  // there is nothing to fall back to
    } else {
      return Status::invalid_argument(
          fmt::format("{}: there is no such field", name),
          "json, regex, choice, grammar, json_object, structural_tag, disable_any_whitespace, "
          "disable_additional_properties and whitespace_pattern are known");
    }
  }
  return checked(std::move(params));
}

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
    QUIRE_RETURN_IF_ERROR(take(each.form, *value, each.name, alone));
    QUIRE_ASSIGN_OR_RETURN(auto constraint, checked(std::move(alone)));
    QUIRE_RETURN_IF_ERROR(add(std::move(constraint)));
  }
  const json::value* whitespace = fields.find(kWhitespaceField);
  if (whitespace != nullptr && !says_no_constraint(*whitespace)) {
    QUIRE_ASSIGN_OR_RETURN(auto pattern, text_of(*whitespace, kWhitespaceField));
    if (found == nullptr || (!found->json && !found->json_object)) {
      return Status::invalid_argument(
          fmt::format("{}: there is no JSON whose white space it could be", kWhitespaceField));
    }
    StructuredOutputsParams with = *found;
    with.whitespace_pattern = std::move(pattern);
    QUIRE_ASSIGN_OR_RETURN(found, checked(std::move(with)));
  }
  if (found != nullptr) params.structured_outputs = std::move(found);
  return {};
}

json::object structured_outputs_schema() {
  const json::object flag = {{"type", "boolean"}};
  return {{"type", "object"},
          {"properties",
           {{"json", schema_of(Form::kJson)},
            {"regex", schema_of(Form::kRegex)},
            {"choice", schema_of(Form::kChoice)},
            {"grammar", schema_of(Form::kGrammar)},
            {"json_object", flag},
            {"structural_tag", schema_of(Form::kTag)},
            {"disable_any_whitespace", flag},
            {"disable_additional_properties", flag},
            {"whitespace_pattern", schema_of(Form::kRegex)}}},
          {"additionalProperties", false}};
}

json::object constraint_properties() {
  json::object properties;
  properties["response_format"] = {
      {"type", "object"},
      {"required", json::array{"type"}},
      {"description", "What the text must be, as OpenAI's chat completions say it"}};
  for (const AloneField& each : kAloneFields) {
    json::object property = schema_of(each.form);
    property["description"] = "Another name of structured_outputs' constraint of the kind";
    properties[each.name] = std::move(property);
  }
  json::object whitespace = schema_of(Form::kRegex);
  whitespace["description"] = "Another name of structured_outputs' whitespace_pattern";
  properties[kWhitespaceField] = std::move(whitespace);
  return properties;
}

json::value show_structured_outputs(const StructuredOutputsParams& params) {
  json::object shown;
  if (params.json) shown["json"] = *params.json;
  if (params.regex) shown["regex"] = *params.regex;
  if (!params.choice.empty()) {
    shown["choice"] = json::array(params.choice.begin(), params.choice.end());
  }
  if (params.grammar) shown["grammar"] = *params.grammar;
  if (params.json_object) shown["json_object"] = true;
  if (params.structural_tag) shown["structural_tag"] = *params.structural_tag;
  if (params.disable_any_whitespace) shown["disable_any_whitespace"] = true;
  if (params.disable_additional_properties) shown["disable_additional_properties"] = true;
  if (params.whitespace_pattern) shown["whitespace_pattern"] = *params.whitespace_pattern;
  return shown;
}

}  // namespace quire
