// Python's string formatting: "%s of %d" % values, and "{} of {name!r:>8}".format(...).
// https://docs.python.org/3/library/stdtypes.html#printf-style-string-formatting and
// https://docs.python.org/3/library/string.html#formatspec
#pragma once

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace quire::jinja {

// `values` is a tuple, a dict (for %(name)s) or the one value.
Result<Value> format_printf(const Value& pattern, const Value& values, Budget& budget);

Result<Value> format_braces(const Value& pattern, const Args& args, Budget& budget);

// Pads with `fill` (one code point) to `width` code points; align is '<', '>' or '^'.
Result<Text> pad(const Text& text, Int width, char align, std::string_view fill, Budget& budget);

}  // namespace quire::jinja
