// Jinja's built-in filters and tests, with tojson as Hugging Face redefines it (json.dumps without
// HTML escapes). https://jinja.palletsprojects.com/en/stable/templates/#list-of-builtin-filters
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace quire::jinja {

bool is_filter(std::string_view name);
Result<Value> apply_filter(std::string_view name, const Value& value, const Args& args,
                           Budget& budget);

bool is_test(std::string_view name);
Result<bool> apply_test(std::string_view name, const Value& value, const Args& args,
                        Budget& budget);

// One filter: gets the piped value and its arguments.
using FilterFunction = Result<Value> (*)(const Value& value, const Args& args, Budget& budget);
struct FilterEntry {
  std::string_view name;
  FilterFunction function;
};
// nullptr for a name that the group does not have.
FilterFunction find_text_filter(std::string_view name);      // upper, trim, replace, tojson, ...
FilterFunction find_number_filter(std::string_view name);    // int, float, abs, round
FilterFunction find_slice_filter(std::string_view name);     // batch, slice
FilterFunction find_sequence_filter(std::string_view name);  // join, map, sort, first, ...

}  // namespace quire::jinja
