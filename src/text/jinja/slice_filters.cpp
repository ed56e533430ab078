// Filters that cut an iterable into lists.
#include <array>
#include <utility>
#include <vector>

#include "text/jinja/filters.h"
#include "text/jinja/operators.h"

namespace quire::jinja {
namespace {

Result<Value> filter_batch(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound,
                         Bound::bind(args, "filter 'batch'", {"linecount", "fill_with"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  QUIRE_ASSIGN_OR_RETURN(const Int size, bound.integer(0, 0));
  QUIRE_ASSIGN_OR_RETURN(const Items walked, iterate(value, budget));
  const std::vector<Value>& items = walked.values;
  if (size < 1) return Status::invalid_argument("filter 'batch': linecount must be positive");
  std::vector<Value> rows;
  for (std::size_t i = 0; i < items.size();) {
    std::vector<Value> row;
    QUIRE_RETURN_IF_ERROR(budget.bytes(2 * sizeof(Value)));  // its place in a list that grows
    if (bound.is_set(1)) {                                   // so many, whatever is left
      constexpr Int kMost = static_cast<Int>(1) << 40;
      const auto wanted = static_cast<std::uint64_t>(std::min(size, kMost));
      QUIRE_RETURN_IF_ERROR(budget.bytes(wanted * sizeof(Value)));
      QUIRE_RETURN_IF_ERROR(budget.scan(wanted * sizeof(Value)));
      row.reserve(wanted);
    }
    while (i < items.size() && static_cast<Int>(row.size()) < size) row.push_back(items[i++]);
    while (bound.is_set(1) && static_cast<Int>(row.size()) < size) {
      row.push_back(bound.at(1));
    }
    QUIRE_ASSIGN_OR_RETURN(Value list, make_sequence(Kind::kList, std::move(row), budget));
    rows.push_back(std::move(list));
  }
  return make_iterator("generator", std::move(rows), budget);
}

Result<Value> filter_slice(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound,
                         Bound::bind(args, "filter 'slice'", {"slices", "fill_with"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  QUIRE_ASSIGN_OR_RETURN(const Int slices, bound.integer(0, 0));
  QUIRE_ASSIGN_OR_RETURN(const Items walked, iterate(value, budget));
  const std::vector<Value>& items = walked.values;
  if (slices < 1) return Status::invalid_argument("filter 'slice': slices must be positive");
  const Int count = static_cast<Int>(items.size());
  std::vector<Value> out;
  auto at = items.begin();
  for (Int i = 0; i < slices; ++i) {
    QUIRE_RETURN_IF_ERROR(budget.step());
    QUIRE_RETURN_IF_ERROR(budget.bytes(2 * sizeof(Value)));  // its place in a list that grows
    const bool has_extra = i < count % slices;
    const auto end = at + static_cast<std::ptrdiff_t>(count / slices + (has_extra ? 1 : 0));
    std::vector<Value> part(at, end);
    at = end;
    if (bound.is_set(1) && !has_extra) part.push_back(bound.at(1));
    QUIRE_ASSIGN_OR_RETURN(Value list, make_sequence(Kind::kList, std::move(part), budget));
    out.push_back(std::move(list));
  }
  return make_iterator("generator", std::move(out), budget);
}

constexpr std::array<FilterEntry, 2> kSliceFilters = {{
    {"batch", filter_batch},
    {"slice", filter_slice},
}};

}  // namespace

FilterFunction find_slice_filter(std::string_view name) {
  for (const FilterEntry& entry : kSliceFilters) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace quire::jinja
