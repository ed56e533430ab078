// Filters over lists, dicts and other iterables.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "text/jinja/attributes.h"
#include "text/jinja/filters.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"

namespace quire::jinja {
namespace {

Result<Value> ignore_case(const Value& value, Budget& budget) {
  if (!value.is_string()) return value;
  QUIRE_ASSIGN_OR_RETURN(Text lower, change_case(value.text(), Case::kLower, budget));
  return Value::string(std::move(lower));
}

// The key of each item: an attribute of it (or itself), in lower case unless case counts.
Result<Value> key_of(const Value& item, const Value* attribute, bool case_sensitive,
                     Budget& budget) {
  QUIRE_RETURN_IF_ERROR(budget.step());
  Value key = item;
  if (attribute != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(key, get_path(item, *attribute, nullptr, budget));
  }
  return case_sensitive ? Result<Value>(key) : ignore_case(key, budget);
}

const Value* attribute_of(const Bound& bound, std::size_t i) {
  return bound.is_set(i) ? &bound.at(i) : nullptr;
}

Result<Value> filter_length(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, "filter 'length'", {}).status());
  QUIRE_ASSIGN_OR_RETURN(const Int count, length(value, budget));
  return Value::integer(count);
}

Result<Value> filter_default(const Value& value, const Args& args, Budget&) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound,
                         Bound::bind(args, "filter 'default'", {"default_value", "boolean"}));
  if (!value.is_undefined() && !(bound.truth(1, false) && !is_true(value))) return value;
  return bound.has(0) ? bound.at(0) : Value::string("", true);
}

Result<Value> filter_join(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, "filter 'join'", {"d", "attribute"}));
  Text separator;
  if (bound.has(0)) {
    QUIRE_ASSIGN_OR_RETURN(separator, to_text(bound.at(0), budget));
  }
  QUIRE_ASSIGN_OR_RETURN(Items walked, iterate(value, budget));
  std::vector<Value>& items = walked.values;
  for (Value& item : items) {
    if (bound.is_set(1)) {
      QUIRE_ASSIGN_OR_RETURN(item, get_path(item, bound.at(1), nullptr, budget));
    }
    if (item.is_string()) continue;
    QUIRE_ASSIGN_OR_RETURN(Text text, to_text(item, budget));
    item = Value::string(std::move(text));
  }
  QUIRE_ASSIGN_OR_RETURN(Text out, join(separator, items, budget));
  return Value::string(std::move(out));
}

Result<Value> filter_first(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, "filter 'first'", {}).status());
  if (value.is(Kind::kIterator)) {  // gets one and leaves the rest
    auto& iterator = value.as<SequenceObject>();
    if (iterator.next < iterator.items.size()) return iterator.items[iterator.next++];
    return Value::undefined("No first item, sequence was empty.");
  }
  if (value.is_sequence() && !value.items().empty()) return value.items().front();
  QUIRE_ASSIGN_OR_RETURN(const Items walked, iterate(value, budget));
  const std::vector<Value>& items = walked.values;
  if (items.empty()) return Value::undefined("No first item, sequence was empty.");
  return items.front();
}

Result<Value> filter_last(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, "filter 'last'", {}).status());
  if (value.is(Kind::kIterator)) {
    return Status::invalid_argument("filter 'last': a generator cannot be walked backwards");
  }
  if (value.is_sequence() && !value.items().empty()) return value.items().back();
  QUIRE_ASSIGN_OR_RETURN(const Items walked, iterate(value, budget));
  const std::vector<Value>& items = walked.values;
  if (items.empty()) return Value::undefined("No last item, sequence was empty.");
  return items.back();
}

Result<Value> filter_list(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, "filter 'list'", {}).status());
  QUIRE_ASSIGN_OR_RETURN(Items walked, iterate(value, budget));
  std::vector<Value>& items = walked.values;
  return make_sequence(Kind::kList, std::move(items), budget);
}

Result<Value> filter_reverse(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, "filter 'reverse'", {}).status());
  if (value.is_string()) {
    return get_slice(value, Value::none(), Value::none(), Value::integer(-1), budget);
  }
  QUIRE_ASSIGN_OR_RETURN(Items walked, iterate(value, budget));
  std::vector<Value>& items = walked.values;
  std::vector<Value> reversed(items.rbegin(), items.rend());
  if (value.is(Kind::kIterator)) return make_sequence(Kind::kList, std::move(reversed), budget);
  return make_iterator("reverse iterator", std::move(reversed), budget);
}

Result<Value> filter_items(const Value& value, const Args& args, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(Bound::bind(args, "filter 'items'", {}).status());
  if (value.is_undefined()) return make_iterator("generator", {}, budget);
  if (!value.is_dict()) return Status::invalid_argument("filter 'items' needs a mapping");
  QUIRE_ASSIGN_OR_RETURN(const Value view, call_method(value, "items", {}, budget));
  QUIRE_ASSIGN_OR_RETURN(Items walked, iterate(view, budget));
  return make_iterator("generator", std::move(walked.values), budget);
}

Result<Value> filter_dictsort(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, "filter 'dictsort'",
                                                        {"case_sensitive", "by", "reverse"}));
  QUIRE_ASSIGN_OR_RETURN(const Value by, bound.string(1, "key"));
  if (by.view() != "key" && by.view() != "value") {
    return Status::invalid_argument("filter 'dictsort': by must be 'key' or 'value'");
  }
  if (value.is_undefined()) return undefined_error(value);
  if (!value.is_dict()) return Status::invalid_argument("filter 'dictsort' needs a mapping");
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, item] : value.dict().entries) {
    const Value& by_value = by.view() == "key" ? key : item;
    QUIRE_ASSIGN_OR_RETURN(Value pair, make_sequence(Kind::kTuple, {key, item}, budget));
    QUIRE_ASSIGN_OR_RETURN(Value sort_by_key, bound.truth(0, false)
                                                  ? Result<Value>(by_value)
                                                  : ignore_case(by_value, budget));
    keyed.emplace_back(std::move(sort_by_key), std::move(pair));
  }
  QUIRE_ASSIGN_OR_RETURN(std::vector<Value> sorted,
                         sort_by(std::move(keyed), bound.truth(2, false), budget));
  return make_sequence(Kind::kList, std::move(sorted), budget);
}

// "a,b" names several attributes, compared one after the other.
Result<Value> sort_key(const Value& item, const Value* attribute, bool case_sensitive,
                       Budget& budget) {
  if (attribute == nullptr || !attribute->is_string() ||
      attribute->view().find(',') == std::string_view::npos) {
    return key_of(item, attribute, case_sensitive, budget);
  }
  std::vector<Value> keys;
  std::string_view rest = attribute->view();
  while (true) {
    const std::size_t comma = rest.find(',');
    const Value part = Value::string(std::string(rest.substr(0, comma)), true);
    QUIRE_ASSIGN_OR_RETURN(Value key, key_of(item, &part, case_sensitive, budget));
    keys.push_back(std::move(key));
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
  }
  return make_sequence(Kind::kList, std::move(keys), budget);
}

Result<Value> filter_sort(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(
      const Bound bound,
      Bound::bind(args, "filter 'sort'", {"reverse", "case_sensitive", "attribute"}));
  QUIRE_ASSIGN_OR_RETURN(Items walked, iterate(value, budget));
  std::vector<Value>& items = walked.values;
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) {
    QUIRE_ASSIGN_OR_RETURN(Value key,
                           sort_key(item, attribute_of(bound, 2), bound.truth(1, false), budget));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  QUIRE_ASSIGN_OR_RETURN(std::vector<Value> sorted,
                         sort_by(std::move(keyed), bound.truth(0, false), budget));
  return make_sequence(Kind::kList, std::move(sorted), budget);
}

Result<Value> filter_unique(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound,
                         Bound::bind(args, "filter 'unique'", {"case_sensitive", "attribute"}));
  QUIRE_ASSIGN_OR_RETURN(const Items walked, iterate(value, budget));
  const std::vector<Value>& items = walked.values;
  std::set<std::string> seen;
  std::vector<Value> out;
  for (const Value& item : items) {
    QUIRE_ASSIGN_OR_RETURN(const Value key,
                           key_of(item, attribute_of(bound, 1), bound.truth(0, false), budget));
    QUIRE_ASSIGN_OR_RETURN(std::string hash, hash_key(key, budget));
    QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + hash.size()));
    if (seen.insert(std::move(hash)).second) out.push_back(item);
  }
  return make_iterator("generator", std::move(out), budget);
}

template <bool kMax>
Result<Value> filter_extreme(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(
      const Bound bound,
      Bound::bind(args, kMax ? "filter 'max'" : "filter 'min'", {"case_sensitive", "attribute"}));
  QUIRE_ASSIGN_OR_RETURN(const Items walked, iterate(value, budget));
  const std::vector<Value>& items = walked.values;
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  Value best;
  Value best_key;
  for (std::size_t i = 0; i < items.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(Value key,
                           key_of(items[i], attribute_of(bound, 1), bound.truth(0, false), budget));
    if (i > 0) {
      QUIRE_ASSIGN_OR_RETURN(const bool better, kMax ? is_less(best_key, key, budget)
                                                     : is_less(key, best_key, budget));
      if (!better) continue;
    }
    best = items[i];
    best_key = std::move(key);
  }
  return best;
}

Result<Value> filter_sum(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound,
                         Bound::bind(args, "filter 'sum'", {"attribute", "start"}));
  QUIRE_ASSIGN_OR_RETURN(const Items walked, iterate(value, budget));
  const std::vector<Value>& items = walked.values;
  Value total = bound.has(1) ? bound.at(1) : Value::integer(0);
  if (total.is_string()) return Status::invalid_argument("filter 'sum' cannot sum strings");
  for (const Value& item : items) {
    QUIRE_RETURN_IF_ERROR(budget.step());
    Value term = item;
    if (bound.is_set(0)) {
      QUIRE_ASSIGN_OR_RETURN(term, get_path(item, bound.at(0), nullptr, budget));
    }
    QUIRE_ASSIGN_OR_RETURN(total, arithmetic("+", total, term, budget));
  }
  return total;
}

Result<Value> filter_map(const Value& value, const Args& args, Budget& budget) {
  if (!is_true(value)) return make_iterator("generator", {}, budget);
  const Value* attribute = args.keyword("attribute");
  if (args.positional.empty() && attribute != nullptr) {
    QUIRE_ASSIGN_OR_RETURN(const Bound bound,
                           Bound::bind(args, "filter 'map'", {"attribute", "default"}));
    QUIRE_ASSIGN_OR_RETURN(Items walked, iterate(value, budget));
    std::vector<Value>& items = walked.values;
    for (Value& item : items) {
      QUIRE_RETURN_IF_ERROR(budget.step());
      QUIRE_ASSIGN_OR_RETURN(item, get_path(item, *attribute, attribute_of(bound, 1), budget));
    }
    return make_iterator("generator", std::move(items), budget);
  }
  if (args.positional.empty() || !args.positional[0].is_string()) {
    return Status::invalid_argument("filter 'map' needs the name of a filter");
  }
  Args rest;
  rest.positional.assign(args.positional.begin() + 1, args.positional.end());
  rest.keywords = args.keywords;
  QUIRE_ASSIGN_OR_RETURN(Items walked, iterate(value, budget));
  std::vector<Value>& items = walked.values;
  for (Value& item : items) {
    QUIRE_ASSIGN_OR_RETURN(item, apply_filter(args.positional[0].view(), item, rest, budget));
  }
  return make_iterator("generator", std::move(items), budget);
}

template <bool kKeep, bool kByAttribute>
Result<Value> filter_select(const Value& value, const Args& args, Budget& budget) {
  if (!is_true(value)) return make_iterator("generator", {}, budget);
  constexpr std::size_t kTest = kByAttribute ? 1 : 0;
  if (kByAttribute && args.positional.empty()) {
    return Status::invalid_argument("selecting by attribute needs the attribute's name");
  }
  const bool has_test = args.positional.size() > kTest;
  Args rest;
  if (has_test) {
    if (!args.positional[kTest].is_string()) {
      return Status::invalid_argument("selecting needs the name of a test");
    }
    rest.positional.assign(args.positional.begin() + kTest + 1, args.positional.end());
    rest.keywords = args.keywords;
  }
  QUIRE_ASSIGN_OR_RETURN(const Items walked, iterate(value, budget));
  const std::vector<Value>& items = walked.values;
  std::vector<Value> out;
  for (const Value& item : items) {
    QUIRE_RETURN_IF_ERROR(budget.step());
    Value subject = item;
    if (kByAttribute) {
      QUIRE_ASSIGN_OR_RETURN(subject, get_path(item, args.positional[0], nullptr, budget));
    }
    bool passes = is_true(subject);
    if (has_test) {
      QUIRE_ASSIGN_OR_RETURN(passes,
                             apply_test(args.positional[kTest].view(), subject, rest, budget));
    }
    if (passes == kKeep) out.push_back(item);
  }
  return make_iterator("generator", std::move(out), budget);
}

Result<Value> filter_groupby(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(
      const Bound bound,
      Bound::bind(args, "filter 'groupby'", {"attribute", "default", "case_sensitive"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  const bool case_sensitive = bound.truth(2, false);
  const auto group_key = [&](const Value& item) -> Result<Value> {
    return get_path(item, bound.at(0), attribute_of(bound, 1), budget);
  };
  QUIRE_ASSIGN_OR_RETURN(const Items walked, iterate(value, budget));
  const std::vector<Value>& items = walked.values;
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) {
    QUIRE_RETURN_IF_ERROR(budget.step());
    QUIRE_ASSIGN_OR_RETURN(const Value key, group_key(item));
    QUIRE_ASSIGN_OR_RETURN(Value sort_by_key,
                           case_sensitive ? Result<Value>(key) : ignore_case(key, budget));
    keyed.emplace_back(std::move(sort_by_key), item);
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<Value> sorted, sort_by(std::move(keyed), false, budget));
  std::vector<Value> groups;
  std::vector<Value> members;
  Value members_key;  // of the first member, in its own case
  const auto close_group = [&]() -> Status {
    if (members.empty()) return {};
    QUIRE_ASSIGN_OR_RETURN(Value list, make_sequence(Kind::kList, std::move(members), budget));
    QUIRE_ASSIGN_OR_RETURN(Value group,
                           make_sequence(Kind::kTuple, {members_key, std::move(list)}, budget));
    group.as<SequenceObject>().is_group = true;
    groups.push_back(std::move(group));
    members.clear();
    return {};
  };
  for (const Value& item : sorted) {
    QUIRE_ASSIGN_OR_RETURN(const Value key, group_key(item));
    if (!members.empty()) {
      const auto folded = [&](const Value& each) {
        return case_sensitive ? Result<Value>(each) : ignore_case(each, budget);
      };
      QUIRE_ASSIGN_OR_RETURN(const Value left, folded(key));
      QUIRE_ASSIGN_OR_RETURN(const Value right, folded(members_key));
      QUIRE_ASSIGN_OR_RETURN(const bool same, is_equal(left, right, budget));
      if (!same) QUIRE_RETURN_IF_ERROR(close_group());
    }
    if (members.empty()) members_key = key;
    members.push_back(item);
  }
  QUIRE_RETURN_IF_ERROR(close_group());
  return make_sequence(Kind::kList, std::move(groups), budget);
}

// The attribute itself, never an item.
Result<Value> filter_attr(const Value& value, const Args& args, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, "filter 'attr'", {"name"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  QUIRE_ASSIGN_OR_RETURN(const Value name, bound.string(0, ""));
  if (value.is_dict() && !has_method(value, name.view())) {
    return Value::undefined("'dict object' has no attribute '" + printable(name.view()) + "'");
  }
  return get_attribute(value, name.view(), budget);
}

constexpr std::array<FilterEntry, 23> kSequenceFilters = {{
    {"attr", filter_attr},
    {"count", filter_length},
    {"d", filter_default},
    {"default", filter_default},
    {"dictsort", filter_dictsort},
    {"first", filter_first},
    {"groupby", filter_groupby},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"length", filter_length},
    {"list", filter_list},
    {"map", filter_map},
    {"max", filter_extreme<true>},
    {"min", filter_extreme<false>},
    {"reject", filter_select<false, false>},
    {"rejectattr", filter_select<false, true>},
    {"reverse", filter_reverse},
    {"select", filter_select<true, false>},
    {"selectattr", filter_select<true, true>},
    {"sort", filter_sort},
    {"sum", filter_sum},
    {"unique", filter_unique},
}};

}  // namespace

FilterFunction find_sequence_filter(std::string_view name) {
  for (const FilterEntry& entry : kSequenceFilters) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace quire::jinja
