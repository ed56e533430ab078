#include "text/jinja/filters.h"

#include <string>

#include "base/printable.h"

namespace quire::jinja {
namespace {

FilterFunction find_filter(std::string_view name) {
  for (const auto find : {find_text_filter, find_number_filter, find_slice_filter}) {
    if (const FilterFunction function = find(name)) return function;
  }
  return find_sequence_filter(name);
}

}  // namespace

bool is_filter(std::string_view name) { return find_filter(name) != nullptr; }

Result<Value> apply_filter(std::string_view name, const Value& value, const Args& args,
                           Budget& budget) {
  QUIRE_RETURN_IF_ERROR(budget.step(4));  // looks the name up among many
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes));
  const FilterFunction function = find_filter(name);
  if (function == nullptr) {
    return Status::unimplemented("unknown filter '" + printable(name) + "'");
  }
  if (value.is_string()) QUIRE_RETURN_IF_ERROR(budget.scan(value.view().size()));
  return function(value, args, budget);
}

}  // namespace quire::jinja
