// What is said of arrays and objects.
#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "text/grammar/json_schema_space.h"

namespace quire {
namespace {

// Members with `x-order` come before those without one.
std::int64_t member_order(const json::value& schema) {
  const json::object* object = schema.if_object();
  const json::value* order = object == nullptr ? nullptr : object->if_contains("x-order");
  if (order == nullptr || !order->is_int64()) return 0;
  constexpr std::int64_t kBefore = 1'000'000'000;
  return std::clamp(order->get_int64(), -kBefore + 1, kBefore - 1) - kBefore;
}

Result<std::vector<std::string>> name_list(const SchemaContext& schema, std::string_view keyword,
                                           const json::value& value) {
  const json::array* array = value.if_array();
  if (array == nullptr) return schema.space->invalid(value, keyword, "expected a list of names");
  std::vector<std::string> names;
  for (const json::value& item : *array) {
    if (!item.is_string()) return schema.space->invalid(item, keyword, "expected a name");
    names.emplace_back(item.get_string());
  }
  return names;
}

// The object of schemas under `keyword`; nullptr if absent.
Result<const json::object*> schema_map(const SchemaContext& schema, std::string_view keyword) {
  const json::value* value = schema.find(keyword);
  if (value == nullptr) return static_cast<const json::object*>(nullptr);
  if (!value->is_object()) {
    return schema.space->invalid(*value, keyword, "expected an object of schemas");
  }
  return &value->get_object();
}

// Puts `names` together, so that a list of hundreds is merged in one go.
void require(ObjectCase& object, const std::vector<std::string>& names) {
  std::int64_t place = 0;
  for (const std::string& name : names) {
    ++place;
    const auto found =
        std::find_if(object.named.begin(), object.named.end(),
                     [&name](const NamedMember& member) { return member.name == name; });
    if (found == object.named.end()) {
      object.named.push_back({name, kTrueFormula, true, 0, place});
    } else {
      found->required = true;
      found->place = place;
    }
  }
}

Status add_items(const SchemaContext& schema, ArrayCase& array) {
  const json::value* items = schema.find("items");
  const json::value* prefix = schema.find("prefixItems");
  if (prefix != nullptr && schema.since(SchemaDraft::k2020)) {
    QUIRE_ASSIGN_OR_RETURN(array.prefix, schema.subschemas("prefixItems", *prefix));
  }
  if (items == nullptr) return {};
  const json::array* list = items->if_array();
  if (list == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(array.rest, schema.subschema("items", *items));
    return {};
  }
  if (!schema.until(SchemaDraft::k2019) || !array.prefix.empty()) {
    return schema.space->invalid(*items, "items", "expected a schema: lists are prefixItems");
  }
  for (const json::value& item : *list) {
    QUIRE_ASSIGN_OR_RETURN(const FormulaId one, schema.subschema("items", item));
    array.prefix.push_back(one);
  }
  if (const json::value* rest = schema.find("additionalItems")) {
    QUIRE_ASSIGN_OR_RETURN(array.rest, schema.subschema("additionalItems", *rest));
  }
  return {};
}

Status add_contains(const SchemaContext& schema, ArrayCase& array) {
  const json::value* contains = schema.find("contains");
  if (contains == nullptr || !schema.since(SchemaDraft::kDraft6)) return {};
  CountedItems counted;
  QUIRE_ASSIGN_OR_RETURN(counted.item, schema.subschema("contains", *contains));
  if (schema.since(SchemaDraft::k2019)) {
    QUIRE_ASSIGN_OR_RETURN(const std::optional<std::int64_t> min, schema.count("minContains"));
    QUIRE_ASSIGN_OR_RETURN(counted.max, schema.count("maxContains"));
    counted.min = min.value_or(1);
  }
  if (counted.min > 0 || counted.max) array.counted.push_back(counted);
  return {};
}

}  // namespace

Result<ArrayCase> array_keywords(const SchemaContext& schema) {
  ArrayCase array;
  QUIRE_RETURN_IF_ERROR(add_items(schema, array));
  QUIRE_ASSIGN_OR_RETURN(const std::optional<std::int64_t> min, schema.count("minItems"));
  array.min = min.value_or(0);
  QUIRE_ASSIGN_OR_RETURN(array.max, schema.count("maxItems"));
  QUIRE_RETURN_IF_ERROR(add_contains(schema, array));
  if (const json::value* unique = schema.find("uniqueItems")) {
    if (!unique->is_bool()) {
      return schema.space->invalid(*unique, "uniqueItems", "expected true or false");
    }
    if (unique->get_bool()) array.unique = unique;
  }
  return array;
}

Result<ObjectCase> object_keywords(const SchemaContext& schema) {
  SchemaSpace& space = *schema.space;
  ObjectCase object;
  std::vector<std::string> names;
  QUIRE_ASSIGN_OR_RETURN(const json::object* const properties, schema_map(schema, "properties"));
  if (properties != nullptr) {
    for (const auto& entry : *properties) {
      QUIRE_ASSIGN_OR_RETURN(const FormulaId value, schema.subschema("properties", entry.value()));
      names.emplace_back(entry.key());
      object.named.push_back({names.back(), value, false, member_order(entry.value())});
    }
  }
  // The names that additionalProperties is not about.
  StringSet known = StringSet::these(std::move(names));
  QUIRE_ASSIGN_OR_RETURN(const json::object* const patterns,
                         schema_map(schema, "patternProperties"));
  if (patterns != nullptr) {
    for (const auto& entry : *patterns) {
      QUIRE_ASSIGN_OR_RETURN(const StringSet matching, schema_pattern(schema, "patternProperties",
                                                                      entry.value(), entry.key()));
      QUIRE_ASSIGN_OR_RETURN(const FormulaId value,
                             schema.subschema("patternProperties", entry.value()));
      if (value != kTrueFormula) object.each.push_back({matching, value});
      QUIRE_ASSIGN_OR_RETURN(known, unite(known, matching, space.budget()));
    }
  }
  const json::value* additional = schema.find("additionalProperties");
  FormulaId others = kTrueFormula;
  if (additional != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(others, schema.subschema("additionalProperties", *additional));
  } else if (space.options().disable_additional_properties &&
             (properties != nullptr || patterns != nullptr) &&
             schema.find("unevaluatedProperties") == nullptr) {
    others = kFalseFormula;
  }
  if (others != kTrueFormula) {
    QUIRE_ASSIGN_OR_RETURN(StringSet rest, complement(known, space.budget()));
    if (!rest.is_none()) object.each.push_back({std::move(rest), others});
  }
  const json::value* naming = schema.find("propertyNames");
  if (naming != nullptr && schema.since(SchemaDraft::kDraft6)) {
    QUIRE_ASSIGN_OR_RETURN(const FormulaId formula, schema.subschema("propertyNames", *naming));
    QUIRE_ASSIGN_OR_RETURN(const Shape* const shape, space.expand(formula));
    // All names but those that are known to be valid.
    QUIRE_ASSIGN_OR_RETURN(StringSet forbidden,
                           complement(shape->strings.lacking(nullptr), space.budget()));
    if (!forbidden.is_none()) object.each.push_back({std::move(forbidden), kFalseFormula});
  }
  if (const json::value* required = schema.find("required")) {
    // Draft 3 had a boolean here, which no later draft gives a meaning.
    QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> wanted,
                           name_list(schema, "required", *required));
    require(object, wanted);
  }
  QUIRE_ASSIGN_OR_RETURN(const std::optional<std::int64_t> min, schema.count("minProperties"));
  object.min = min.value_or(0);
  QUIRE_ASSIGN_OR_RETURN(object.max, schema.count("maxProperties"));
  return object;
}

Result<std::vector<SchemaDependency>> schema_dependencies(const SchemaContext& schema) {
  std::vector<SchemaDependency> dependencies;
  for (const std::string_view keyword : {"dependencies", "dependentSchemas", "dependentRequired"}) {
    const bool old = keyword == "dependencies";
    if (!old && !schema.since(SchemaDraft::k2019)) continue;
    QUIRE_ASSIGN_OR_RETURN(const json::object* const map, schema_map(schema, keyword));
    if (map == nullptr) continue;
    for (const auto& entry : *map) {
      SchemaDependency dependency;
      dependency.name = entry.key();
      if (keyword == "dependentRequired" || (old && entry.value().is_array())) {
        QUIRE_ASSIGN_OR_RETURN(dependency.required, name_list(schema, keyword, entry.value()));
      } else {
        QUIRE_ASSIGN_OR_RETURN(dependency.schema, schema.subschema(keyword, entry.value()));
      }
      dependencies.push_back(std::move(dependency));
    }
  }
  return dependencies;
}

}  // namespace quire
