// Which schemas of a document say the same, so that each is looked into once however often it is
// written. Internal to JSON Schema.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/json.h"

namespace quire {

class JsonSchemaContents {
 public:
  // Notes `schema`, an object; those within it come before it. Borrows it.
  void add(const json::value& schema);
  // The first noted one that says what `schema` says, apart from remarks such as `description`, in
  // the same order; itself where there is none, or where it was not noted.
  const json::value& first_like(const json::value& schema) const;

 private:
  using Number = std::uint32_t;  // equal for those that say the same

  std::uint64_t hash_of(const json::value& value) const;
  std::uint64_t hash_of_schema(const json::object& schema) const;
  bool are_equal(const json::value& a, const json::value& b) const;
  bool are_equal_schemas(const json::object& a, const json::object& b) const;

  std::unordered_map<const json::value*, Number> numbers_;
  std::vector<const json::value*> firsts_;             // by number
  std::unordered_map<std::uint64_t, Number> by_hash_;  // the first of each hash
};

}  // namespace quire
