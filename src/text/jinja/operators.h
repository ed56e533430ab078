// Python's operators on values: truth, equality, order, membership, arithmetic, iteration.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace quire::jinja {

bool is_true(const Value& value);
Result<bool> is_equal(const Value& a, const Value& b, Budget& budget);
Result<bool> is_less(const Value& a, const Value& b, Budget& budget);
// op is one of == != < <= > >= in "not in".
Result<bool> compare(std::string_view op, const Value& a, const Value& b, Budget& budget);
Result<bool> contains(const Value& container, const Value& item, Budget& budget);

// op is one of + - * / // % **.
Result<Value> arithmetic(std::string_view op, const Value& a, const Value& b, Budget& budget);
Result<Value> negate(const Value& value);

// len(value), an error for what has no length.
Result<Int> length(const Value& value, Budget& budget);
// What an iteration walks over, and the memory that owns it.
struct Items {
  std::vector<Value> values;
  Budget::Loan loan;
};
// All that iteration gives; an iterator is used up by it.
Result<Items> iterate(const Value& value, Budget& budget);
bool is_iterable(const Value& value);

// Stable sort by keys, computed before; `reverse` keeps equal items in order, as Python does.
Result<std::vector<Value>> sort_by(std::vector<std::pair<Value, Value>> keyed, bool reverse,
                                   Budget& budget);

// The error of using an undefined value.
Status undefined_error(const Value& value);

// HTML-escapes what is not markup.
Result<Value> escape_html(const Value& string, Budget& budget);

}  // namespace quire::jinja
