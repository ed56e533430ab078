// What a schema allows, looked into once: for each type of JSON a set of values. Strings and
// numbers are regular sets; arrays and objects are alternatives, each a list of demands that apply
// together. What members and items may be stays a formula. Closed under and, or, not (but for
// `uniqueItems`).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/grammar/json_schema_formula.h"
#include "text/grammar/json_schema_sets.h"

namespace quire {

// At least `min` and at most `max` items from index `from` on are of `item`.
struct CountedItems {
  FormulaId item = kTrueFormula;
  std::int64_t from = 0;
  std::int64_t min = 1;
  std::optional<std::int64_t> max;

  bool operator==(const CountedItems&) const = default;
};

struct ArrayCase {
  std::vector<FormulaId> prefix;  // item i, if there is one
  FormulaId rest = kTrueFormula;  // each item behind those
  std::int64_t min = 0;
  std::optional<std::int64_t> max;
  std::vector<CountedItems> counted;
  const json::value* unique = nullptr;  // the `uniqueItems` that says so

  bool operator==(const ArrayCase&) const = default;
};

// The member called `name`, if there is one.
struct NamedMember {
  std::string name;
  FormulaId value = kTrueFormula;
  bool required = false;
  std::int64_t order = 0;  // `x-order`; members of one order stay as they are given
  std::int64_t place = 0;  // within `required`, from 1; 0: it is not there

  bool operator==(const NamedMember&) const = default;
};

// Members whose name is of `names`: that each is of `value`, or that some one is.
struct MembersByName {
  StringSet names;
  FormulaId value = kTrueFormula;

  bool operator==(const MembersByName&) const = default;
};

struct ObjectCase {
  std::vector<NamedMember> named;
  std::vector<MembersByName> each;
  std::vector<MembersByName> some;
  std::int64_t min = 0;
  std::optional<std::int64_t> max;

  bool operator==(const ObjectCase&) const = default;
};

struct Shape {
  bool null_value = false;
  bool true_value = false;
  bool false_value = false;
  NumberSet numbers = NumberSet::none();
  StringSet strings = StringSet::none();
  std::vector<ArrayCase> arrays;
  std::vector<ObjectCase> objects;

  static Shape all();
  static Shape none() { return {}; }
  bool is_none() const;
};

// Recognises alternatives that no value can satisfy, as far as that can be seen. (One that is not
// recognised costs time, and is no error.)
class EmptyCaseJudge {
 public:
  virtual Result<bool> is_empty(const ArrayCase& array) = 0;
  virtual Result<bool> is_empty(const ObjectCase& object) = 0;
  // Where in the schema `value` is, for messages.
  virtual std::string place_of(const json::value& value) const = 0;

 protected:
  ~EmptyCaseJudge() = default;
};

// What the algebra of shapes needs. Borrowed.
struct ShapeContext {
  // Alternatives of arrays or of objects in one shape.
  static constexpr std::size_t kMaxCases = 1500;

  FormulaTable* formulas = nullptr;
  GrammarBudget* budget = nullptr;
  EmptyCaseJudge* judge = nullptr;
};

// kResourceExhausted naming kMaxCases or a limit of the budget; kUnimplemented for the negation of
// `uniqueItems`.
Result<Shape> intersect(const Shape& a, const Shape& b, ShapeContext context);
Result<Shape> unite(Shape a, Shape b, ShapeContext context);
Result<Shape> difference(const Shape& a, const Shape& b, ShapeContext context);

// The formula of the member `name` of an object of this case.
FormulaId value_of_member(const ObjectCase& object, const NamedMember& member,
                          FormulaTable& formulas);

}  // namespace quire
