// How values become text, byte for byte as Python prints them: str(), repr() and json.dumps().
#pragma once

#include <string>

#include "base/status.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace quire::jinja {

std::string format_int(Int value);
// repr() of a float: the shortest digits that read back as the same number; 1e+16, nan, inf.
std::string format_float(double value);

// str(value); undefined prints as nothing. What Python would print with an address (a generator, a
// method) is an error.
Result<Text> to_text(const Value& value, Budget& budget);
// repr(value), as inside a printed list.
Result<Text> to_repr(const Value& value, Budget& budget);

struct JsonFormat {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool has_indent = false;  // one item a line
  Text indent;
  Text item_separator;
  Text key_separator;
};

// json.dumps(value, ...); values that JSON does not have are an error.
Result<Text> to_json(const Value& value, const JsonFormat& format, Budget& budget);

}  // namespace quire::jinja
