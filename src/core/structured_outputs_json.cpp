#include "core/structured_outputs_json.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace quire {
namespace {

Status expected_there(std::string_view field, std::string_view what, const json::value& found) {
  return Status::invalid_argument(
      fmt::format("{}: expected {}, found {}", field, what, json_kind_name(found)));
}

Result<std::string> text_of(const json::value& value, std::string_view field) {
  if (!value.is_string()) return expected_there(field, "a string", value);
  return std::string(value.get_string());
}

// JSON as itself or as its text.
Result<std::string> json_text(const json::value& value, std::string_view field) {
  if (value.is_object()) return json::serialize(value);
  if (value.is_string()) return std::string(value.get_string());
  return expected_there(field, "an object, or a string that holds one", value);
}

Result<std::vector<std::string>> texts_of(const json::value& value, std::string_view field) {
  std::vector<std::string> texts;
  if (!value.is_array()) return expected_there(field, "an array of strings", value);
  if (value.get_array().empty()) {
    return Status::invalid_argument(fmt::format("{}: expected at least one text", field));
  }
  for (const json::value& item : value.get_array()) {
    if (!item.is_string()) return expected_there(field, "an array of strings", item);
    texts.emplace_back(item.get_string());
  }
  return texts;
}

Result<bool> flag_of(const json::value& value, std::string_view field) {
  if (!value.is_bool()) return expected_there(field, "true or false", value);
  return value.get_bool();
}

Status unknown_field(std::string_view name) {
  return Status::invalid_argument(
      fmt::format("{}: there is no such field", name),
      "json, regex, choice, grammar, json_object, structural_tag, disable_any_whitespace, "
      "disable_additional_properties and whitespace_pattern are known");
}

}  // namespace

Status read_constraint(std::string_view key, const json::value& value, std::string_view field,
                       StructuredOutputsParams& to) {
  if (key == "json") {
    QUIRE_ASSIGN_OR_RETURN(to.json, json_text(value, field));
  } else if (key == "regex") {
    QUIRE_ASSIGN_OR_RETURN(to.regex, text_of(value, field));
  } else if (key == "choice") {
    QUIRE_ASSIGN_OR_RETURN(to.choice, texts_of(value, field));
  } else if (key == "grammar") {
    QUIRE_ASSIGN_OR_RETURN(to.grammar, text_of(value, field));
  } else if (key == "structural_tag") {
    QUIRE_ASSIGN_OR_RETURN(to.structural_tag, json_text(value, field));
  } else {
    return unknown_field(field);
  }
  return {};
}

Result<StructuredOutputsParams> read_structured_outputs(const json::value& value,
                                                        std::string_view field) {
  if (!value.is_object()) return expected_there(field, "an object", value);
  StructuredOutputsParams params;
  params.field = field;
  for (const auto& entry : value.get_object()) {
    const std::string_view key = entry.key();
    const json::value& given = entry.value();
    const std::string name = fmt::format("{}.{}", field, key);
    if (given.is_null()) continue;
    if (key == "json_object") {
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
      QUIRE_RETURN_IF_ERROR(read_constraint(key, given, name, params));
    }
  }
  QUIRE_RETURN_IF_ERROR(params.validate());
  return params;
}

json::object show_structured_outputs(const StructuredOutputsParams& params) {
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
