#include "text/grammar/json_schema_shape.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

namespace quire {
namespace {

std::optional<std::int64_t> smaller_limit(std::optional<std::int64_t> a,
                                          std::optional<std::int64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

template <typename Item>
void append_missing(std::vector<Item>& to, const std::vector<Item>& from) {
  for (const Item& item : from) {
    if (std::find(to.begin(), to.end(), item) == to.end()) to.push_back(item);
  }
}

bool is_free(const ArrayCase& array) { return array == ArrayCase(); }
bool is_free(const ObjectCase& object) { return object == ObjectCase(); }

bool has_count(const ObjectCase& object) { return !object.max || *object.max >= object.min; }

// Nullopt where no value can meet both.
std::optional<ArrayCase> both_arrays(const ArrayCase& a, const ArrayCase& b,
                                     FormulaTable& formulas) {
  ArrayCase both = a;
  const std::size_t length = std::max(a.prefix.size(), b.prefix.size());
  both.prefix.clear();
  for (std::size_t i = 0; i < length; ++i) {
    const FormulaId left = i < a.prefix.size() ? a.prefix[i] : a.rest;
    const FormulaId right = i < b.prefix.size() ? b.prefix[i] : b.rest;
    both.prefix.push_back(formulas.all_of({left, right}));
  }
  both.rest = formulas.all_of({a.rest, b.rest});
  both.min = std::max(a.min, b.min);
  both.max = smaller_limit(a.max, b.max);
  append_missing(both.counted, b.counted);
  both.unique = a.unique != nullptr ? a.unique : b.unique;
  // No item can stand where none may.
  for (std::size_t i = 0; i < length; ++i) {
    if (both.prefix[i] != kFalseFormula) continue;
    both.max = smaller_limit(both.max, static_cast<std::int64_t>(i));
    break;
  }
  if (both.rest == kFalseFormula) {
    both.max = smaller_limit(both.max, static_cast<std::int64_t>(length));
  }
  while (!both.prefix.empty() && both.prefix.back() == both.rest) both.prefix.pop_back();
  if (both.max && *both.max < both.min) return std::nullopt;
  return both;
}

std::optional<ObjectCase> both_objects(const ObjectCase& a, const ObjectCase& b,
                                       FormulaTable& formulas) {
  if (is_free(a) || is_free(b)) {
    const ObjectCase& one = is_free(a) ? b : a;
    return has_count(one) ? std::optional(one) : std::nullopt;
  }
  ObjectCase both = a;
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < a.named.size(); ++i) places.emplace(a.named[i].name, i);
  for (const NamedMember& member : b.named) {
    const auto found = places.find(member.name);
    if (found == places.end()) {
      places.emplace(member.name, both.named.size());
      both.named.push_back(member);
      continue;
    }
    NamedMember& mine = both.named[found->second];
    mine.value = formulas.all_of({mine.value, member.value});
    mine.required = mine.required || member.required;
    if (mine.order == 0) mine.order = member.order;
    if (mine.place == 0) mine.place = member.place;
    if (mine.required && mine.value == kFalseFormula) return std::nullopt;
  }
  append_missing(both.each, b.each);
  append_missing(both.some, b.some);
  both.min = std::max(a.min, b.min);
  both.max = smaller_limit(a.max, b.max);
  if (!has_count(both)) return std::nullopt;
  return both;
}

template <typename Item>
bool has_all(const std::vector<Item>& in, const std::vector<Item>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&in](const Item& item) {
    return std::find(in.begin(), in.end(), item) != in.end();
  });
}

bool within(std::int64_t min, std::optional<std::int64_t> max, std::int64_t outer_min,
            std::optional<std::int64_t> outer_max) {
  return min >= outer_min && (!outer_max || (max && *max <= *outer_max));
}

// Whether it is plain that each value of `a` is one of `b`.
bool implies(const ArrayCase& a, const ArrayCase& b) {
  if (is_free(b)) return true;
  if (a == b) return true;
  return b.prefix == a.prefix && b.rest == a.rest && (a.unique != nullptr || b.unique == nullptr) &&
         within(a.min, a.max, b.min, b.max) && has_all(a.counted, b.counted);
}

bool implies(const ObjectCase& a, const ObjectCase& b) {
  if (is_free(b)) return true;
  if (!within(a.min, a.max, b.min, b.max)) return false;
  for (const NamedMember& wanted : b.named) {
    const auto found = std::find_if(a.named.begin(), a.named.end(), [&](const NamedMember& mine) {
      return mine.name == wanted.name;
    });
    if (found == a.named.end()) {
      if (wanted.required || wanted.value != kTrueFormula) return false;
      continue;
    }
    if (wanted.required && !found->required) return false;
    if (wanted.value != kTrueFormula && wanted.value != found->value) return false;
  }
  return has_all(a.each, b.each) && has_all(a.some, b.some);
}

// Adds an alternative, unless another one has all of its values; drops those that it has.
template <typename Case>
Status add_case(std::vector<Case>& cases, Case added, ShapeContext context) {
  for (const Case& other : cases) {
    QUIRE_RETURN_IF_ERROR(context.budget->tick(16));
    if (implies(added, other)) return {};
  }
  std::erase_if(cases, [&added](const Case& other) { return implies(other, added); });
  if (cases.size() == ShapeContext::kMaxCases) {
    return Status::resource_exhausted(
        fmt::format("JSON Schema: more than {} alternatives of one array or object",
                    ShapeContext::kMaxCases),
        "combine fewer schemas by oneOf, anyOf, not and if");
  }
  cases.push_back(std::move(added));
  return {};
}

template <typename Case, typename Both>
Result<std::vector<Case>> both_cases(const std::vector<Case>& a, const std::vector<Case>& b,
                                     Both both, ShapeContext context) {
  std::vector<Case> cases;
  for (const Case& left : a) {
    for (const Case& right : b) {
      std::optional<Case> made = both(left, right, *context.formulas);
      if (!made) continue;
      QUIRE_ASSIGN_OR_RETURN(const bool empty, context.judge->is_empty(*made));
      if (empty) continue;
      QUIRE_RETURN_IF_ERROR(add_case(cases, std::move(*made), context));
    }
  }
  return cases;
}

// The ways in which a value can fail to be of a case.
Result<std::vector<ArrayCase>> failures(const ArrayCase& array, ShapeContext context) {
  if (array.unique != nullptr) {
    return Status::unimplemented(fmt::format("JSON Schema: uniqueItems at {}: under not, oneOf or "
                                             "if it is not supported",
                                             context.judge->place_of(*array.unique)),
                                 "leave uniqueItems out of the schemas that may not hold");
  }
  FormulaTable& formulas = *context.formulas;
  std::vector<ArrayCase> cases;
  for (std::size_t i = 0; i < array.prefix.size(); ++i) {
    if (array.prefix[i] == kTrueFormula) continue;
    ArrayCase made;
    made.prefix.assign(i, kTrueFormula);
    made.prefix.push_back(formulas.negation(array.prefix[i]));
    made.min = static_cast<std::int64_t>(i) + 1;
    cases.push_back(std::move(made));
  }
  if (array.rest == kFalseFormula) {
    ArrayCase made;
    made.min = static_cast<std::int64_t>(array.prefix.size()) + 1;
    cases.push_back(std::move(made));
  } else if (array.rest != kTrueFormula) {
    ArrayCase made;
    const auto from = static_cast<std::int64_t>(array.prefix.size());
    made.counted.push_back({formulas.negation(array.rest), from, 1, std::nullopt});
    cases.push_back(std::move(made));
  }
  if (array.min > 0) {
    ArrayCase made;
    made.max = array.min - 1;
    cases.push_back(std::move(made));
  }
  if (array.max) {
    ArrayCase made;
    made.min = *array.max + 1;
    cases.push_back(std::move(made));
  }
  for (const CountedItems& counted : array.counted) {
    if (counted.min > 0) {
      ArrayCase made;
      made.counted.push_back({counted.item, counted.from, 0, counted.min - 1});
      cases.push_back(std::move(made));
    }
    if (counted.max) {
      ArrayCase made;
      made.counted.push_back({counted.item, counted.from, *counted.max + 1, std::nullopt});
      cases.push_back(std::move(made));
    }
  }
  return cases;
}

Result<std::vector<ObjectCase>> failures(const ObjectCase& object, ShapeContext context) {
  FormulaTable& formulas = *context.formulas;
  std::vector<ObjectCase> cases;
  for (const NamedMember& member : object.named) {
    if (member.required) {
      ObjectCase made;
      made.named.push_back({member.name, kFalseFormula, false, member.order});
      cases.push_back(std::move(made));
    }
    if (member.value != kTrueFormula) {
      ObjectCase made;
      made.named.push_back({member.name, formulas.negation(member.value), true, member.order});
      cases.push_back(std::move(made));
    }
  }
  for (const MembersByName& each : object.each) {
    ObjectCase made;
    made.some.push_back({each.names, formulas.negation(each.value)});
    cases.push_back(std::move(made));
  }
  for (const MembersByName& some : object.some) {
    ObjectCase made;
    made.each.push_back({some.names, formulas.negation(some.value)});
    cases.push_back(std::move(made));
  }
  if (object.min > 0) {
    ObjectCase made;
    made.max = object.min - 1;
    cases.push_back(std::move(made));
  }
  if (object.max) {
    ObjectCase made;
    made.min = *object.max + 1;
    cases.push_back(std::move(made));
  }
  return cases;
}

// Those values of `left` that are of no case. Alternatives that have nothing in common with a case
// stay whole, so that what is told apart by a constant does not grow.
template <typename Case, typename Both>
Result<std::vector<Case>> without_cases(std::vector<Case> left, const std::vector<Case>& cases,
                                        Both both, ShapeContext context) {
  for (const Case& removed : cases) {
    std::vector<Case> kept;
    std::optional<std::vector<Case>> failed;
    for (Case& mine : left) {
      const std::optional<Case> common = both(mine, removed, *context.formulas);
      bool apart = !common;
      if (common) {
        QUIRE_ASSIGN_OR_RETURN(apart, context.judge->is_empty(*common));
      }
      if (apart) {
        QUIRE_RETURN_IF_ERROR(add_case(kept, std::move(mine), context));
        continue;
      }
      if (!failed) {
        QUIRE_ASSIGN_OR_RETURN(failed, failures(removed, context));
      }
      const std::vector<Case> one = {std::move(mine)};
      QUIRE_ASSIGN_OR_RETURN(std::vector<Case> parts, both_cases(one, *failed, both, context));
      for (Case& part : parts) QUIRE_RETURN_IF_ERROR(add_case(kept, std::move(part), context));
    }
    left = std::move(kept);
  }
  return left;
}

}  // namespace

Shape Shape::all() {
  Shape shape;
  shape.null_value = shape.true_value = shape.false_value = true;
  shape.numbers = NumberSet::all();
  shape.strings = StringSet::all();
  shape.arrays.resize(1);
  shape.objects.resize(1);
  return shape;
}

bool Shape::is_none() const {
  return !null_value && !true_value && !false_value && numbers.is_none() && strings.is_none() &&
         arrays.empty() && objects.empty();
}

Result<Shape> intersect(const Shape& a, const Shape& b, ShapeContext context) {
  Shape both;
  both.null_value = a.null_value && b.null_value;
  both.true_value = a.true_value && b.true_value;
  both.false_value = a.false_value && b.false_value;
  QUIRE_ASSIGN_OR_RETURN(both.numbers, intersect(a.numbers, b.numbers, *context.budget));
  QUIRE_ASSIGN_OR_RETURN(both.strings, intersect(a.strings, b.strings, *context.budget));
  QUIRE_ASSIGN_OR_RETURN(both.arrays, both_cases(a.arrays, b.arrays, both_arrays, context));
  QUIRE_ASSIGN_OR_RETURN(both.objects, both_cases(a.objects, b.objects, both_objects, context));
  return both;
}

Result<Shape> unite(Shape a, Shape b, ShapeContext context) {
  a.null_value = a.null_value || b.null_value;
  a.true_value = a.true_value || b.true_value;
  a.false_value = a.false_value || b.false_value;
  QUIRE_ASSIGN_OR_RETURN(a.numbers, unite(a.numbers, b.numbers, *context.budget));
  QUIRE_ASSIGN_OR_RETURN(a.strings, unite(a.strings, b.strings, *context.budget));
  for (ArrayCase& array : b.arrays) {
    QUIRE_RETURN_IF_ERROR(add_case(a.arrays, std::move(array), context));
  }
  for (ObjectCase& object : b.objects) {
    QUIRE_RETURN_IF_ERROR(add_case(a.objects, std::move(object), context));
  }
  return a;
}

Result<Shape> difference(const Shape& a, const Shape& b, ShapeContext context) {
  Shape rest;
  rest.null_value = a.null_value && !b.null_value;
  rest.true_value = a.true_value && !b.true_value;
  rest.false_value = a.false_value && !b.false_value;
  if (!a.numbers.is_none()) {
    QUIRE_ASSIGN_OR_RETURN(const NumberSet others, complement(b.numbers, *context.budget));
    QUIRE_ASSIGN_OR_RETURN(rest.numbers, intersect(a.numbers, others, *context.budget));
  }
  if (!a.strings.is_none()) {
    QUIRE_ASSIGN_OR_RETURN(const StringSet others, complement(b.strings, *context.budget));
    QUIRE_ASSIGN_OR_RETURN(rest.strings, intersect(a.strings, others, *context.budget));
  }
  QUIRE_ASSIGN_OR_RETURN(rest.arrays, without_cases(a.arrays, b.arrays, both_arrays, context));
  QUIRE_ASSIGN_OR_RETURN(rest.objects, without_cases(a.objects, b.objects, both_objects, context));
  return rest;
}

FormulaId value_of_member(const ObjectCase& object, const NamedMember& member,
                          FormulaTable& formulas) {
  std::vector<FormulaId> parts = {member.value};
  for (const MembersByName& each : object.each) {
    if (each.names.contains(member.name)) parts.push_back(each.value);
  }
  return formulas.all_of(std::move(parts));
}

}  // namespace quire
