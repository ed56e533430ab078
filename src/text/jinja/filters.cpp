#include "text/jinja/filters.h"

#include <string>

namespace quire::jinja {
namespace {

FilterFunction find_filter(std::string_view name) {
  if (const FilterFunction function = find_text_filter(name)) return function;
  return find_sequence_filter(name);
}

}  // namespace

bool is_filter(std::string_view name) { return find_filter(name) != nullptr; }

Result<Value> apply_filter(std::string_view name, const Value& value, const Args& args,
                           Budget& budget) {
  QUIRE_RETURN_IF_ERROR(budget.step());
  const FilterFunction function = find_filter(name);
  if (function == nullptr) {
    return Status::unimplemented("unknown filter '" + std::string(name) + "'");
  }
  if (value.is_string()) QUIRE_RETURN_IF_ERROR(budget.bytes(value.view().size()));
  return function(value, args, budget);
}

}  // namespace quire::jinja
