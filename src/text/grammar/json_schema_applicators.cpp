// Keywords that apply other schemas to the same value.
#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "text/grammar/json_schema_space.h"

namespace quire {
namespace {

// Narrows `shape` step by step, so that alternatives are combined with what is left of them only.
class ApplicatorReader {
 public:
  ApplicatorReader(const SchemaContext& schema, Shape shape)
      : schema_(schema), space_(*schema.space), shape_(std::move(shape)) {}

  Status read();
  Shape take() { return std::move(shape_); }

 private:
  Status meet(FormulaId formula) {
    QUIRE_ASSIGN_OR_RETURN(const Shape* const other, space_.expand(formula));
    QUIRE_ASSIGN_OR_RETURN(shape_, intersect(shape_, *other, space_.context()));
    return {};
  }
  Status references();
  Status all_of(const std::vector<FormulaId>& parts);
  Status any_of(const std::vector<FormulaId>& parts);
  Status one_of(const std::vector<FormulaId>& parts);
  Status conditional();
  Status dependencies();

  const SchemaContext& schema_;
  SchemaSpace& space_;
  Shape shape_;
};

Status ApplicatorReader::references() {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<FormulaId> targets, referenced_schemas(schema_));
  for (const FormulaId target : targets) QUIRE_RETURN_IF_ERROR(meet(target));
  return {};
}

// Bounds of numbers first, since fewer values are combined sooner; members in their order.
Status ApplicatorReader::all_of(const std::vector<FormulaId>& parts) {
  for (const FormulaId part : parts) {
    const FormulaTable::Formula& formula = space_.formulas()[part];
    if (shape_.numbers.is_none() || formula.kind != FormulaTable::Kind::kSchema) continue;
    const json::object& object = formula.schema.place.value->get_object();
    const auto is_bound = [](const auto& entry) {
      return entry.key().starts_with("minimum") || entry.key().starts_with("maximum") ||
             entry.key().starts_with("exclusive");
    };
    if (!std::ranges::any_of(object, is_bound)) continue;
    QUIRE_ASSIGN_OR_RETURN(const Shape* const bounds, space_.expand(part));
    QUIRE_ASSIGN_OR_RETURN(shape_.numbers,
                           intersect(shape_.numbers, bounds->numbers, space_.budget()));
  }
  for (const FormulaId part : parts) QUIRE_RETURN_IF_ERROR(meet(part));
  return {};
}

Status ApplicatorReader::any_of(const std::vector<FormulaId>& parts) {
  Shape any = Shape::none();
  for (const FormulaId part : parts) {
    QUIRE_ASSIGN_OR_RETURN(const Shape* const other, space_.expand(part));
    QUIRE_ASSIGN_OR_RETURN(Shape met, intersect(shape_, *other, space_.context()));
    QUIRE_ASSIGN_OR_RETURN(any, unite(std::move(any), std::move(met), space_.context()));
  }
  shape_ = std::move(any);
  return {};
}

Status ApplicatorReader::one_of(const std::vector<FormulaId>& parts) {
  Shape one = Shape::none();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(const Shape* const chosen, space_.expand(parts[i]));
    QUIRE_ASSIGN_OR_RETURN(Shape met, intersect(shape_, *chosen, space_.context()));
    for (std::size_t k = 0; k < parts.size() && !met.is_none(); ++k) {
      if (k == i) continue;
      QUIRE_ASSIGN_OR_RETURN(const Shape* const other, space_.expand(parts[k]));
      QUIRE_ASSIGN_OR_RETURN(met, difference(met, *other, space_.context()));
    }
    QUIRE_ASSIGN_OR_RETURN(one, unite(std::move(one), std::move(met), space_.context()));
  }
  shape_ = std::move(one);
  return {};
}

Status ApplicatorReader::conditional() {
  const json::value* condition = schema_.find("if");
  if (condition == nullptr || !schema_.since(SchemaDraft::kDraft7)) return {};
  QUIRE_ASSIGN_OR_RETURN(const FormulaId formula, schema_.subschema("if", *condition));
  QUIRE_ASSIGN_OR_RETURN(const Shape* const met, space_.expand(formula));
  QUIRE_ASSIGN_OR_RETURN(Shape holds, intersect(shape_, *met, space_.context()));
  QUIRE_ASSIGN_OR_RETURN(Shape fails, difference(shape_, *met, space_.context()));
  for (const bool positive : {true, false}) {
    const std::string_view keyword = positive ? "then" : "else";
    const json::value* value = schema_.find(keyword);
    if (value == nullptr) continue;
    QUIRE_ASSIGN_OR_RETURN(const FormulaId follows, schema_.subschema(keyword, *value));
    QUIRE_ASSIGN_OR_RETURN(const Shape* const other, space_.expand(follows));
    Shape& side = positive ? holds : fails;
    QUIRE_ASSIGN_OR_RETURN(side, intersect(side, *other, space_.context()));
  }
  QUIRE_ASSIGN_OR_RETURN(shape_, unite(std::move(holds), std::move(fails), space_.context()));
  return {};
}

Status ApplicatorReader::dependencies() {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<SchemaDependency> list, schema_dependencies(schema_));
  for (const SchemaDependency& dependency : list) {
    if (shape_.objects.empty()) return {};
    Shape absent = Shape::all();
    absent.objects.front().named.push_back({dependency.name, kFalseFormula, false, 0});
    Shape present = Shape::none();
    present.objects.resize(1);
    std::vector<NamedMember>& named = present.objects.front().named;
    named.push_back({dependency.name, kTrueFormula, true, 0});
    for (const std::string& name : dependency.required) {
      if (std::ranges::find(named, name, &NamedMember::name) != named.end()) continue;
      named.push_back({name, kTrueFormula, true, 0});
    }
    QUIRE_ASSIGN_OR_RETURN(Shape without, intersect(shape_, absent, space_.context()));
    QUIRE_ASSIGN_OR_RETURN(Shape with, intersect(shape_, present, space_.context()));
    QUIRE_ASSIGN_OR_RETURN(const Shape* const other, space_.expand(dependency.schema));
    QUIRE_ASSIGN_OR_RETURN(with, intersect(with, *other, space_.context()));
    QUIRE_ASSIGN_OR_RETURN(shape_, unite(std::move(without), std::move(with), space_.context()));
  }
  return {};
}

Status ApplicatorReader::read() {
  QUIRE_RETURN_IF_ERROR(references());
  if (const json::value* all = schema_.find("allOf")) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<FormulaId> parts, schema_.subschemas("allOf", *all));
    QUIRE_RETURN_IF_ERROR(all_of(parts));
  }
  if (const json::value* any = schema_.find("anyOf")) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<FormulaId> parts, schema_.subschemas("anyOf", *any));
    QUIRE_RETURN_IF_ERROR(any_of(parts));
  }
  QUIRE_RETURN_IF_ERROR(dependencies());
  QUIRE_RETURN_IF_ERROR(conditional());
  if (const json::value* one = schema_.find("oneOf")) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<FormulaId> parts, schema_.subschemas("oneOf", *one));
    QUIRE_RETURN_IF_ERROR(one_of(parts));
  }
  if (const json::value* denied = schema_.find("not")) {
    QUIRE_ASSIGN_OR_RETURN(const FormulaId formula, schema_.subschema("not", *denied));
    QUIRE_ASSIGN_OR_RETURN(const Shape* const other, space_.expand(formula));
    QUIRE_ASSIGN_OR_RETURN(shape_, difference(shape_, *other, space_.context()));
  }
  return {};
}

}  // namespace

Result<std::vector<FormulaId>> referenced_schemas(const SchemaContext& schema) {
  SchemaSpace& space = *schema.space;
  const JsonSchemaDocument& document = space.document();
  const std::vector<int>& scope = space.resources_of(schema.scope);
  std::vector<FormulaId> targets;
  for (const std::string_view keyword : {"$ref", "$dynamicRef", "$recursiveRef"}) {
    const json::value* value = schema.find(keyword);
    if (value == nullptr) continue;
    if (keyword == "$dynamicRef" && !schema.since(SchemaDraft::k2020)) continue;
    if (keyword == "$recursiveRef" && schema.draft != SchemaDraft::k2019) continue;
    if (!value->is_string()) return space.invalid(*value, keyword, "expected a reference");
    const std::string_view text = value->get_string();
    Result<SchemaPlace> place = keyword == "$ref" ? document.resolve(schema.place, text)
                                : keyword == "$dynamicRef"
                                    ? document.resolve_dynamic(schema.place, text, scope)
                                    : document.resolve_recursive(schema.place, scope);
    if (!place.ok()) return place.status();
    targets.push_back(space.schema({*place, schema.scope}));
  }
  return targets;
}

Result<Shape> shape_of_schema(const SchemaContext& schema) {
  if (schema.ref_alone()) {
    Shape shape = Shape::all();
    QUIRE_ASSIGN_OR_RETURN(const std::vector<FormulaId> targets, referenced_schemas(schema));
    for (const FormulaId target : targets) {
      QUIRE_ASSIGN_OR_RETURN(const Shape* const other, schema.space->expand(target));
      QUIRE_ASSIGN_OR_RETURN(shape, intersect(shape, *other, schema.space->context()));
    }
    return shape;
  }
  if (has_unevaluated(schema)) return shape_with_unevaluated(schema);
  QUIRE_ASSIGN_OR_RETURN(Shape shape, shape_of_keywords(schema));
  ApplicatorReader reader(schema, std::move(shape));
  QUIRE_RETURN_IF_ERROR(reader.read());
  return reader.take();
}

}  // namespace quire
