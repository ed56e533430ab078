// The methods of strings, dicts and lists.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace quire::jinja {

// Whether Python's type of `value` has a method of this name, supported here or not.
bool has_method(const Value& value, std::string_view name);
// Whether the method changes its receiver (list.append, dict.update): templates may not call it.
bool is_mutating_method(const Value& value, std::string_view name);

Result<Value> call_method(const Value& receiver, std::string_view name, const Args& args,
                          Budget& budget);

// Parts of str's behaviour that filters share.
enum class Case { kUpper, kLower, kTitle, kCapitalize, kSwap };
Result<Text> change_case(const Text& text, Case mode, Budget& budget);
enum class Side { kLeft, kRight, kBoth };
// Strips white space, or the code points of `chars` when it is given.
Result<Text> strip(const Text& text, Side side, const Value* chars, Budget& budget);
// Replaces up to `limit` occurrences.
Result<Text> replace(const Text& text, std::string_view from, const Text& to, std::size_t limit,
                     Budget& budget);
Result<Text> join(const Text& separator, const std::vector<Value>& strings, Budget& budget);
Result<std::vector<Text>> split_lines(const Text& text, bool keep_ends, Budget& budget);
bool is_case(std::string_view text, bool upper);  // str.isupper, str.islower
// What the method of this name says of a text: "isalpha", "istitle" and all others of the kind.
bool is_all(std::string_view text, std::string_view name);

}  // namespace quire::jinja
