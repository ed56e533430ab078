// What a parser has to know of the tools that a request offers: names, and the types of parameters
// where a dialect writes their values as bare text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/json.h"

namespace quire {

// Of a parameter's JSON Schema; a set of bits, empty where the schema does not say.
enum ParameterType : std::uint8_t {
  kStringType = 1,
  kNumberType = 2,
  kBooleanType = 4,
  kNullType = 8,
  kArrayType = 16,
  kObjectType = 32,
};

class ToolSet {
 public:
  ToolSet() = default;
  // `tools`: of the form {"type": "function", "function": {"name": ..., "parameters": {...}}};
  // others are skipped.
  explicit ToolSet(const json::array& tools);

  bool empty() const { return tools_.empty(); }
  bool has(std::string_view name) const { return tools_.find(name) != tools_.end(); }
  // Bits of ParameterType; 0: not known.
  std::uint8_t types(std::string_view tool, std::string_view parameter) const;

 private:
  using Parameters = std::map<std::string, std::uint8_t, std::less<>>;
  std::map<std::string, Parameters, std::less<>> tools_;
};

}  // namespace quire
