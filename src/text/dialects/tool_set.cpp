#include "text/dialects/tool_set.h"

namespace quire {
namespace {

constexpr int kMaxSchemaDepth = 8;

std::uint8_t type_bit(std::string_view name) {
  if (name == "string") return kStringType;
  if (name == "number" || name == "integer") return kNumberType;
  if (name == "boolean") return kBooleanType;
  if (name == "null") return kNullType;
  if (name == "array") return kArrayType;
  if (name == "object") return kObjectType;
  return 0;
}

std::uint8_t type_of_value(const json::value& value) {
  if (value.is_string()) return kStringType;
  if (value.is_number()) return kNumberType;
  if (value.is_bool()) return kBooleanType;
  if (value.is_null()) return kNullType;
  return value.is_array() ? kArrayType : kObjectType;
}

std::uint8_t schema_types(const json::value& schema, int depth);

std::uint8_t types_of_any(const json::value& list, int depth) {
  std::uint8_t types = 0;
  if (!list.is_array()) return types;
  for (const json::value& item : list.get_array()) {
    const std::uint8_t some = schema_types(item, depth + 1);
    if (some == 0) return 0;
    types |= some;
  }
  return types;
}

std::uint8_t schema_types(const json::value& schema, int depth) {
  if (!schema.is_object() || depth > kMaxSchemaDepth) return 0;
  const json::object& object = schema.get_object();
  std::uint8_t types = 0;
  if (const json::value* type = object.if_contains("type")) {
    if (type->is_string()) return type_bit(type->get_string());
    if (type->is_array()) {
      for (const json::value& name : type->get_array()) {
        if (name.is_string()) types |= type_bit(name.get_string());
      }
    }
    return types;
  }
  if (const json::value* values = object.if_contains("enum"); values && values->is_array()) {
    for (const json::value& value : values->get_array()) types |= type_of_value(value);
    return types;
  }
  if (const json::value* value = object.if_contains("const")) return type_of_value(*value);
  for (const std::string_view key : {"anyOf", "oneOf"}) {
    if (const json::value* list = object.if_contains(key)) return types_of_any(*list, depth);
  }
  return 0;
}

const json::object* object_at(const json::object& from, std::string_view key) {
  const json::value* value = from.if_contains(key);
  return value != nullptr && value->is_object() ? &value->get_object() : nullptr;
}

}  // namespace

ToolSet::ToolSet(const json::array& tools) {
  for (const json::value& tool : tools) {
    const json::object* function =
        tool.is_object() ? object_at(tool.get_object(), "function") : nullptr;
    if (function == nullptr) continue;
    const json::value* name = function->if_contains("name");
    if (name == nullptr || !name->is_string()) continue;
    Parameters& parameters = tools_[std::string(name->get_string())];
    const json::object* schema = object_at(*function, "parameters");
    const json::object* properties = schema != nullptr ? object_at(*schema, "properties") : nullptr;
    if (properties == nullptr) continue;
    for (const auto& property : *properties) {
      parameters[std::string(property.key())] = schema_types(property.value(), 0);
    }
  }
}

std::uint8_t ToolSet::types(std::string_view tool, std::string_view parameter) const {
  const auto found = tools_.find(tool);
  if (found == tools_.end()) return 0;
  const auto type = found->second.find(parameter);
  return type == found->second.end() ? std::uint8_t{0} : type->second;
}

}  // namespace quire
