// Reading parts of values: value.name, value[key] and value[a:b:c], with Jinja's rules: a dot looks
// for a method first and an item second, brackets the other way round; what is not there is
// undefined.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/jinja/budget.h"
#include "text/jinja/value.h"

namespace quire::jinja {

Result<Value> get_attribute(const Value& value, std::string_view name, Budget& budget);
Result<Value> get_item(const Value& value, const Value& key, Budget& budget);
// start, stop and step are integers, None or undefined-free; None stands for left out.
Result<Value> get_slice(const Value& value, const Value& start, const Value& stop,
                        const Value& step, Budget& budget);

// Follows a dotted path of items ("function.name", "0.id"), as the attribute argument of filters;
// `fallback`, if not null, stands in for what is undefined on the way.
Result<Value> get_path(Value value, const Value& path, const Value* fallback, Budget& budget);

}  // namespace quire::jinja
