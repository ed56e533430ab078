// Jinja's built-in tests ("value is name(args)").
#include <array>
#include <string>
#include <utility>

#include "base/printable.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"

namespace quire::jinja {
namespace {

using Predicate = bool (*)(const Value& value);

// Python's Undefined and objects of Jinja's answer to a call, at least with an error.
bool is_callable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kMacro:
    case Kind::kMethod:
    case Kind::kFunction:
    case Kind::kLoop:
    case Kind::kJoiner:
      return true;
    default:
      return false;
  }
}

bool is_indexable(const Value& value) {
  return value.is_sequence() || value.is_string() || value.is_dict() || value.is_undefined() ||
         value.is(Kind::kRange);
}

constexpr std::array<std::pair<std::string_view, Predicate>, 17> kPredicates = {{
    {"boolean", [](const Value& v) { return v.is(Kind::kBool); }},
    {"callable", is_callable},
    {"defined", [](const Value& v) { return !v.is_undefined(); }},
    {"escaped", [](const Value& v) { return v.is_markup(); }},
    {"false", [](const Value& v) { return v.is(Kind::kBool) && !v.as_bool(); }},
    {"filter", [](const Value& v) { return v.is_string() && is_filter(v.view()); }},
    {"float", [](const Value& v) { return v.is(Kind::kFloat); }},
    {"integer", [](const Value& v) { return v.is(Kind::kInt); }},
    {"iterable", [](const Value& v) { return is_iterable(v) || v.is(Kind::kLoop); }},
    {"mapping", [](const Value& v) { return v.is_dict(); }},
    {"none", [](const Value& v) { return v.is_none(); }},
    {"number", [](const Value& v) { return v.is_numeric(); }},
    {"sequence", is_indexable},
    {"string", [](const Value& v) { return v.is_string(); }},
    {"test", [](const Value& v) { return v.is_string() && is_test(v.view()); }},
    {"true", [](const Value& v) { return v.is(Kind::kBool) && v.as_bool(); }},
    {"undefined", [](const Value& v) { return v.is_undefined(); }},
}};

// Tests that are comparisons: their names and the operator.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kComparisonTests = {{
    {"==", "=="},
    {"eq", "=="},
    {"equalto", "=="},
    {"!=", "!="},
    {"ne", "!="},
    {">", ">"},
    {"gt", ">"},
    {"greaterthan", ">"},
    {">=", ">="},
    {"ge", ">="},
    {"<", "<"},
    {"lt", "<"},
    {"lessthan", "<"},
    {"<=", "<="},
    {"le", "<="},
    {"in", "in"},
}};

bool is_same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.identity() != nullptr) return a.identity() == b.identity();
  if (a.is(Kind::kFloat)) return a.as_double() == b.as_double();
  return a.as_int() == b.as_int();
}

Result<bool> has_remainder(const Value& value, Int divisor, Int wanted, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Value rest, arithmetic("%", value, Value::integer(divisor), budget));
  return is_equal(rest, Value::integer(wanted), budget);
}

}  // namespace

bool is_test(std::string_view name) {
  for (const auto& entry : kPredicates) {
    if (entry.first == name) return true;
  }
  for (const auto& entry : kComparisonTests) {
    if (entry.first == name) return true;
  }
  return name == "divisibleby" || name == "even" || name == "odd" || name == "lower" ||
         name == "upper" || name == "sameas";
}

Result<bool> apply_test(std::string_view name, const Value& value, const Args& args,
                        Budget& budget) {
  QUIRE_RETURN_IF_ERROR(budget.step(2));
  const std::string what = "test '" + printable(name) + "'";
  for (const auto& [test, predicate] : kPredicates) {
    if (test != name) continue;
    QUIRE_RETURN_IF_ERROR(Bound::bind(args, what, {}).status());
    return predicate(value);
  }
  if (name == "lower" || name == "upper") {
    QUIRE_RETURN_IF_ERROR(Bound::bind(args, what, {}).status());
    if (value.is_string()) QUIRE_RETURN_IF_ERROR(budget.bytes(value.text().weight()));
    QUIRE_ASSIGN_OR_RETURN(const Text text, to_text(value, budget));
    QUIRE_RETURN_IF_ERROR(budget.characters(2 * text.size()));
    return is_case(text.view(), name == "upper");
  }
  if (name == "even" || name == "odd") {
    QUIRE_RETURN_IF_ERROR(Bound::bind(args, what, {}).status());
    return has_remainder(value, 2, name == "even" ? 0 : 1, budget);
  }
  if (!is_test(name)) return Status::unimplemented("unknown test '" + printable(name) + "'");
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, what, {"other"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  if (name == "sameas") return is_same(value, bound.at(0));
  if (name == "divisibleby") {
    QUIRE_ASSIGN_OR_RETURN(const Int divisor, bound.integer(0, 1));
    return has_remainder(value, divisor, 0, budget);
  }
  for (const auto& [test, op] : kComparisonTests) {
    if (test == name) return compare(op, value, bound.at(0), budget);
  }
  return Status::unimplemented("unknown test '" + printable(name) + "'");
}

}  // namespace quire::jinja
