#include "text/grammar/json_schema_formula.h"

#include <algorithm>

namespace quire {

FormulaTable::FormulaTable() {
  formulas_.resize(2);
  formulas_[kTrueFormula].kind = Kind::kTrue;
}

FormulaId FormulaTable::add(Formula formula) {
  formulas_.push_back(std::move(formula));
  return static_cast<FormulaId>(formulas_.size() - 1);
}

FormulaId FormulaTable::schema(ScopedSchema schema) {
  const json::value& value = *schema.place.value;
  if (value.is_bool()) return value.get_bool() ? kTrueFormula : kFalseFormula;
  if (value.is_object() && value.get_object().empty()) return kTrueFormula;
  const auto key = std::tuple(schema.place.value, schema.place.resource, schema.scope);
  const auto found = schemas_.find(key);
  if (found != schemas_.end()) return found->second;
  Formula formula;
  formula.kind = Kind::kSchema;
  formula.schema = schema;
  const FormulaId id = add(std::move(formula));
  schemas_.emplace(key, id);
  return id;
}

FormulaId FormulaTable::constant(const json::value& value) {
  const auto found = constants_.find(&value);
  if (found != constants_.end()) return found->second;
  Formula formula;
  formula.kind = Kind::kConstant;
  formula.constant = &value;
  const FormulaId id = add(std::move(formula));
  constants_.emplace(&value, id);
  return id;
}

FormulaId FormulaTable::combine(Kind kind, std::vector<FormulaId> parts) {
  const FormulaId neutral = kind == Kind::kAll ? kTrueFormula : kFalseFormula;
  const FormulaId final = kind == Kind::kAll ? kFalseFormula : kTrueFormula;
  std::vector<FormulaId> flat;
  for (const FormulaId part : parts) {
    if (part == final) return final;
    if (part == neutral) continue;
    const Formula& inner = (*this)[part];
    if (inner.kind == kind) {
      flat.insert(flat.end(), inner.parts.begin(), inner.parts.end());
    } else {
      flat.push_back(part);
    }
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) return neutral;
  if (flat.size() == 1) return flat.front();
  for (const FormulaId part : flat) {
    const Formula& inner = (*this)[part];
    if (inner.kind == Kind::kNot &&
        std::binary_search(flat.begin(), flat.end(), inner.parts.front())) {
      return final;
    }
  }
  const auto key = std::pair(kind, flat);
  const auto found = combined_.find(key);
  if (found != combined_.end()) return found->second;
  Formula formula;
  formula.kind = kind;
  formula.parts = std::move(flat);
  const FormulaId id = add(std::move(formula));
  combined_.emplace(key, id);
  return id;
}

FormulaId FormulaTable::all_of(std::vector<FormulaId> parts) {
  return combine(Kind::kAll, std::move(parts));
}

FormulaId FormulaTable::any_of(std::vector<FormulaId> parts) {
  return combine(Kind::kAny, std::move(parts));
}

FormulaId FormulaTable::negation(FormulaId id) {
  if (id == kFalseFormula) return kTrueFormula;
  if (id == kTrueFormula) return kFalseFormula;
  const Kind kind = (*this)[id].kind;
  if (kind == Kind::kNot) return (*this)[id].parts.front();
  if (kind == Kind::kAll || kind == Kind::kAny) {
    std::vector<FormulaId> parts = (*this)[id].parts;
    for (FormulaId& part : parts) part = negation(part);
    return kind == Kind::kAll ? any_of(std::move(parts)) : all_of(std::move(parts));
  }
  const auto key = std::pair(Kind::kNot, std::vector<FormulaId>{id});
  const auto found = combined_.find(key);
  if (found != combined_.end()) return found->second;
  Formula formula;
  formula.kind = Kind::kNot;
  formula.parts = {id};
  const FormulaId made = add(std::move(formula));
  combined_.emplace(key, made);
  return made;
}

}  // namespace quire
