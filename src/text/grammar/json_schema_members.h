// An object's members by what is said of them. Internal to JSON Schema.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/grammar/json_schema_space.h"

namespace quire {

struct ObjectMembers {
  struct Named {
    std::string name;
    FormulaId value = kTrueFormula;
    bool required = false;
    std::int64_t place = 0;     // NamedMember::place
    std::uint32_t demands = 0;  // of ObjectCase::some, bit by bit, those about this name
  };
  struct Others {
    StringSet names;
    FormulaId value = kTrueFormula;
    std::uint32_t demands = 0;
  };

  std::vector<Named> named;         // in the order in which they come
  std::vector<Others> others;       // sets of names that have none in common
  std::vector<FormulaId> demanded;  // for each demand what the value has to be
  std::int64_t min = 0;
  std::optional<std::int64_t> max;
  bool impossible = false;
};

// kResourceExhausted where demands or patterns are too many.
Result<ObjectMembers> object_members(SchemaSpace& space, const ObjectCase& object);

}  // namespace quire
