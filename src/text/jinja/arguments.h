// The evaluated arguments of a call, and their binding to the parameters of a built-in.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/jinja/value.h"

namespace quire::jinja {

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  bool empty() const { return positional.empty() && keywords.empty(); }
  const Value* keyword(std::string_view name) const;
  // Moves the keyword's value to `out` and forgets it; false if there is none.
  bool take_keyword(std::string_view name, Value& out);
};

// Arguments by parameter index; the accessors give defaults and name the parameter in errors.
class Bound {
 public:
  // `what` names the callee in errors: "filter 'join'".
  static Result<Bound> bind(const Args& args, std::string what,
                            std::initializer_list<std::string_view> parameters);

  bool has(std::size_t i) const { return values_[i] != nullptr; }
  // Whether given and not None.
  bool is_set(std::size_t i) const { return has(i) && !values_[i]->is_none(); }
  const Value& at(std::size_t i) const { return *values_[i]; }
  Status require(std::size_t i) const;
  Result<Int> integer(std::size_t i, Int fallback) const;  // bools count, floats do not
  bool truth(std::size_t i, bool fallback) const;
  Result<Value> string(std::size_t i, std::string_view fallback) const;  // a string value

 private:
  Status wrong(std::size_t i, std::string_view expected) const;

  std::string what_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

}  // namespace quire::jinja
