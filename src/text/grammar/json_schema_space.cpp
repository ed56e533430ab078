#include "text/grammar/json_schema_space.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {

SchemaSpace::SchemaSpace(const JsonSchemaDocument& document, const JsonSchemaOptions& options,
                         GrammarBudget& budget)
    : document_(&document), options_(&options), budget_(&budget), scopes_(1) {
  scope_numbers_.emplace(std::vector<int>(), 0);
}

FormulaId SchemaSpace::root() { return schema({document_->root(), 0}); }

FormulaId SchemaSpace::schema(ScopedSchema schema) {
  return formulas_.schema({document_->first_like(schema.place), schema.scope});
}

int SchemaSpace::enter(int scope, SchemaPlace place) {
  if (!document_->has_dynamic_anchors()) return 0;
  std::vector<int> entered = resources_of(scope);
  if (std::find(entered.begin(), entered.end(), place.resource) != entered.end()) return scope;
  entered.push_back(place.resource);
  const auto [found, fresh] = scope_numbers_.try_emplace(entered, static_cast<int>(scopes_.size()));
  if (fresh) scopes_.push_back(std::move(entered));
  return found->second;
}

const json::value& SchemaSpace::keep(const json::value& value) {
  for (const json::value& kept : kept_) {
    if (json_equal(kept, value)) return kept;
  }
  kept_.push_back(value);
  return kept_.back();
}

Status SchemaSpace::refused(const json::value& place, std::string_view keyword,
                            std::string_view why, std::string_view remedy) const {
  return Status::unimplemented(fmt::format("JSON Schema: {} at {}: {}", printable(keyword),
                                           document_->pointer_to(place), why),
                               remedy);
}

Status SchemaSpace::invalid(const json::value& place, std::string_view keyword,
                            std::string_view why) const {
  return Status::invalid_argument(fmt::format("JSON Schema: {} at {}: {}", printable(keyword),
                                              document_->pointer_to(place), why),
                                  "correct the schema");
}

Result<const Shape*> SchemaSpace::expand(FormulaId formula) {
  const auto index = static_cast<std::size_t>(formula);
  if (states_.size() <= index) {
    if (formulas_.size() > kMaxFormulas) {
      return Status::resource_exhausted(
          fmt::format("JSON Schema: its parts combine in more than {} ways", kMaxFormulas),
          "combine fewer schemas by allOf, anyOf, oneOf and not");
    }
    states_.resize(formulas_.size(), State::kNew);
    shapes_.resize(formulas_.size());
    busy_since_.resize(formulas_.size());
  }
  if (states_[index] == State::kDone) return shapes_[index].get();
  if (states_[index] == State::kBusy) {
    // Reached by a look ahead through a property or an item: the answer is not there yet.
    if (busy_since_[index] < lookahead_) return Status::unavailable("not known yet");
    const ScopedSchema schema = formulas_[formula].schema;
    const std::string place =
        schema.place.value == nullptr ? "#" : document_->pointer_to(*schema.place.value);
    return Status::invalid_argument(
        fmt::format("JSON Schema: the schema at {} refers to itself with no property or item in "
                    "between",
                    place),
        "a recursive $ref has to be of a property's or an item's schema");
  }
  if (depth_ == kMaxDepth) {
    return Status::resource_exhausted(
        fmt::format("JSON Schema: more than {} schemas within one another", kMaxDepth),
        "use fewer steps of $ref and allOf");
  }
  states_[index] = State::kBusy;
  busy_since_[index] = lookahead_;
  ++depth_;
  Result<Shape> made = make(formula);
  --depth_;
  if (!made.ok()) {
    states_[index] = State::kNew;
    return made.status();
  }
  states_[index] = State::kDone;
  shapes_[index] = std::make_unique<const Shape>(std::move(*made));
  return shapes_[index].get();
}

Result<Shape> SchemaSpace::make(FormulaId formula) {
  using Kind = FormulaTable::Kind;
  QUIRE_RETURN_IF_ERROR(budget_->tick(64));
  const FormulaTable::Formula node = formulas_[formula];
  switch (node.kind) {
    case Kind::kFalse:
      return Shape::none();
    case Kind::kTrue:
      return Shape::all();
    case Kind::kConstant:
      return shape_of_constant(*node.constant, *this);
    case Kind::kSchema:
      return shape_of_schema(SchemaContext::of(*this, node.schema));
    case Kind::kNot: {
      QUIRE_ASSIGN_OR_RETURN(const Shape* const inner, expand(node.parts.front()));
      return difference(Shape::all(), *inner, context());
    }
    case Kind::kAll: {
      Shape all = Shape::all();
      // What is denied is subtracted last, when least is left.
      for (const bool denied : {false, true}) {
        for (const FormulaId part : node.parts) {
          if ((formulas_[part].kind == Kind::kNot) != denied) continue;
          const FormulaId positive = denied ? formulas_[part].parts.front() : part;
          QUIRE_ASSIGN_OR_RETURN(const Shape* const inner, expand(positive));
          QUIRE_ASSIGN_OR_RETURN(
              all, denied ? difference(all, *inner, context()) : intersect(all, *inner, context()));
        }
      }
      return all;
    }
    case Kind::kAny: {
      Shape any = Shape::none();
      for (const FormulaId part : node.parts) {
        QUIRE_ASSIGN_OR_RETURN(const Shape* const inner, expand(part));
        QUIRE_ASSIGN_OR_RETURN(any, unite(std::move(any), *inner, context()));
      }
      return any;
    }
  }
  return Shape::none();
}

Result<bool> SchemaSpace::is_empty(FormulaId formula) {
  if (formula == kFalseFormula) return true;
  if (formula == kTrueFormula) return false;
  const auto index = static_cast<std::size_t>(formula);
  const State state = index < states_.size() ? states_[index] : State::kNew;
  if (state == State::kDone) return shapes_[index]->is_none();
  if (state == State::kBusy || lookahead_ == kMaxLookahead || depth_ >= kMaxDepth / 2) return false;
  ++lookahead_;
  const Result<const Shape*> shape = expand(formula);
  --lookahead_;
  if (shape.ok()) return (*shape)->is_none();
  if (shape.status().code() == StatusCode::kUnavailable) return false;
  return shape.status();
}

Result<bool> SchemaSpace::is_empty(const ArrayCase& array) {
  for (std::int64_t i = 0; i < array.min; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const bool last = index >= array.prefix.size();
    QUIRE_ASSIGN_OR_RETURN(const bool empty, is_empty(last ? array.rest : array.prefix[index]));
    if (empty) return true;
    if (last) break;
  }
  return false;
}

Result<bool> SchemaSpace::is_empty(const ObjectCase& object) {
  for (const NamedMember& member : object.named) {
    if (!member.required) continue;
    const FormulaId value = value_of_member(object, member, formulas_);
    QUIRE_ASSIGN_OR_RETURN(const bool empty, is_empty(value));
    if (empty) return true;
  }
  return false;
}

Result<FormulaId> SchemaContext::subschema(std::string_view keyword,
                                           const json::value& value) const {
  if (!value.is_object() && !value.is_bool()) {
    return space->invalid(value, keyword,
                          fmt::format("expected a schema, found {}", json_kind_name(value)));
  }
  return space->schema({space->document().child(place, value), scope});
}

Result<std::vector<FormulaId>> SchemaContext::subschemas(std::string_view keyword,
                                                         const json::value& value) const {
  const json::array* array = value.if_array();
  if (array == nullptr || array->empty()) {
    return space->invalid(value, keyword, "expected a list of one or more schemas");
  }
  std::vector<FormulaId> schemas;
  for (const json::value& item : *array) {
    QUIRE_ASSIGN_OR_RETURN(const FormulaId schema, subschema(keyword, item));
    schemas.push_back(schema);
  }
  return schemas;
}

Result<std::optional<std::int64_t>> SchemaContext::count(std::string_view keyword) const {
  const json::value* value = find(keyword);
  if (value == nullptr) return std::optional<std::int64_t>();
  constexpr double kLargest = 1e15;
  if (value->is_int64() && value->get_int64() >= 0) {
    return std::optional(std::min(value->get_int64(), static_cast<std::int64_t>(kLargest)));
  }
  if (value->is_uint64()) return std::optional(static_cast<std::int64_t>(kLargest));
  const double* number = value->if_double();
  if (number != nullptr && *number >= 0 && std::floor(*number) == *number) {
    return std::optional(static_cast<std::int64_t>(std::min(*number, kLargest)));
  }
  return space->invalid(*value, keyword, "expected a whole number that is not negative");
}

}  // namespace quire
