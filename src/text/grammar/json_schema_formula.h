// Sets of JSON values as formulas over schemas and constants, each kept once. What a property or an
// item may be stays a formula until somebody looks into it, so that a schema may refer to itself.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "text/grammar/json_schema_document.h"

namespace quire {

using FormulaId = std::int32_t;
inline constexpr FormulaId kFalseFormula = 0;
inline constexpr FormulaId kTrueFormula = 1;

// A schema together with the resources that were entered on the way to it, which decide what its
// dynamic references mean; always 0 where the document has none.
struct ScopedSchema {
  SchemaPlace place;
  int scope = 0;
};

class FormulaTable {
 public:
  enum class Kind : std::uint8_t { kFalse, kTrue, kSchema, kConstant, kNot, kAll, kAny };
  struct Formula {
    Kind kind = Kind::kFalse;
    ScopedSchema schema;                    // kSchema
    const json::value* constant = nullptr;  // kConstant
    std::vector<FormulaId> parts;           // kNot, kAll, kAny
  };

  FormulaTable();

  FormulaId schema(ScopedSchema schema);
  FormulaId constant(const json::value& value);
  // Simplified where that can be seen without looking into schemas.
  FormulaId all_of(std::vector<FormulaId> parts);
  FormulaId any_of(std::vector<FormulaId> parts);
  FormulaId negation(FormulaId formula);

  const Formula& operator[](FormulaId id) const { return formulas_[static_cast<std::size_t>(id)]; }
  std::size_t size() const { return formulas_.size(); }

 private:
  FormulaId combine(Kind kind, std::vector<FormulaId> parts);
  FormulaId add(Formula formula);

  std::vector<Formula> formulas_;
  std::map<std::tuple<const json::value*, int, int>, FormulaId> schemas_;
  std::unordered_map<const json::value*, FormulaId> constants_;
  std::map<std::pair<Kind, std::vector<FormulaId>>, FormulaId> combined_;
};

}  // namespace quire
