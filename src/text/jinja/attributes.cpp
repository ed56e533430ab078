#include "text/jinja/attributes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {
namespace {

Value missing(const Value& value, std::string_view name) {
  std::string owner = value.is_none() ? "None" : "'" + std::string(kind_name(value)) + " object'";
  return Value::undefined(owner + " has no attribute '" + printable(name) + "'");
}

// What Python finds on the object itself: a method, or a field of an object of Jinja's.
bool find_own(const Value& value, std::string_view name, Value& out) {
  if (name.starts_with("_")) return false;  // the sandbox hides them
  if (value.is(Kind::kNamespace)) {
    const Value* found = value.as<NamespaceObject>().attributes.find(name);
    if (found == nullptr) return false;
    out = *found;
    return true;
  }
  if (value.is(Kind::kTuple) && value.as<SequenceObject>().is_group) {
    if (name == "grouper" || name == "list") {
      out = value.items()[name == "list" ? 1 : 0];
      return true;
    }
  }
  if (value.is(Kind::kCycler) && name == "current") {
    const auto& cycler = value.as<CyclerObject>();
    out = cycler.items[cycler.position];
    return true;
  }
  if (value.is(Kind::kMacro) && name == "name") {
    out = Value::string(value.as<MacroObject>().name, true);
    return true;
  }
  if (!has_method(value, name)) return false;
  if (is_mutating_method(value, name)) {
    out = Value::undefined("access to the method '" + std::string(name) + "' of a '" +
                           std::string(kind_name(value)) + "' is unsafe");
    return true;
  }
  auto method = std::make_shared<MethodObject>();
  method->receiver = value;
  method->name = name;
  method->depth = value.depth() + 1;
  out = Value::object(Kind::kMethod, std::move(method));
  return true;
}

// Python's value[key]; false where it would raise.
Result<bool> find_item(const Value& value, const Value& key, Value& out, Budget& budget) {
  if (value.is_dict()) {
    const Value* found = nullptr;
    if (key.is_string()) {
      QUIRE_RETURN_IF_ERROR(budget.scan(2 * key.view().size()));
      found = value.dict().find(key.view());
    } else {
      const Result<std::string> hash = hash_key(key, budget);
      found = hash.ok() ? value.dict().find_key(*hash) : nullptr;
    }
    if (found != nullptr) out = *found;
    return found != nullptr;
  }
  if (!key.is_integral()) return false;
  Int index = key.as_int();
  if (value.is_sequence()) {
    const auto& items = value.items();
    if (index < 0) index += static_cast<Int>(items.size());
    if (index < 0 || index >= static_cast<Int>(items.size())) return false;
    out = items[static_cast<std::size_t>(index)];
    return true;
  }
  if (value.is(Kind::kRange)) {
    const auto& range = value.as<RangeObject>();
    const Int count = range.length();
    if (index < 0) index += count;
    if (index < 0 || index >= count) return false;
    out = Value::integer(range.start + index * range.step);
    return true;
  }
  if (value.is_string()) {
    const std::string_view view = value.view();
    QUIRE_RETURN_IF_ERROR(budget.scan(2 * view.size()));
    if (index < 0) index += static_cast<Int>(code_point_count(view));
    if (index < 0 || index >= static_cast<Int>(view.size())) return false;
    std::size_t begin = byte_offset(view, static_cast<std::size_t>(index));
    if (begin >= view.size()) return false;
    std::size_t end = begin;
    next_code_point(view, end);
    out = Value::string(value.text().substr(begin, end), value.is_markup());
    return true;
  }
  return false;
}

// The positions that start:stop:step selects from `count` elements, as Python's slice.indices.
Result<std::vector<std::size_t>> slice_positions(const Value& start, const Value& stop,
                                                 const Value& step, std::size_t size,
                                                 Budget& budget) {
  for (const Value* part : {&start, &stop, &step}) {
    if (part->is_undefined()) return undefined_error(*part);
    if (!part->is_none() && !part->is_integral()) {
      return Status::invalid_argument("slice indices must be integers or None");
    }
  }
  const Int count = static_cast<Int>(size);
  const Int by = step.is_none() ? 1 : step.as_int();
  if (by == 0) return Status::invalid_argument("slice step cannot be zero");
  const Int low = by > 0 ? 0 : -1;
  const Int high = by > 0 ? count : count - 1;
  const auto clamp = [&](const Value& part, Int fallback) {
    if (part.is_none()) return fallback;
    const Int index = part.as_int() < 0 ? part.as_int() + count : part.as_int();
    return std::clamp(index, low, high);
  };
  const Int first = clamp(start, by > 0 ? low : high);
  const Int last = clamp(stop, by > 0 ? high : low);
  const Int span = by > 0 ? last - first : first - last;
  const Int stride = by > 0 ? by : -by;
  const auto selected = static_cast<std::uint64_t>(span <= 0 ? 0 : (span - 1) / stride + 1);
  QUIRE_RETURN_IF_ERROR(budget.step(selected / 8));
  QUIRE_RETURN_IF_ERROR(budget.bytes(selected * sizeof(std::size_t)));
  std::vector<std::size_t> out;
  out.reserve(selected);
  Int i = first;
  while (by > 0 ? i < last : i > last) {
    out.push_back(static_cast<std::size_t>(i));
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  return out;
}

}  // namespace

Result<Value> get_attribute(const Value& value, std::string_view name, Budget& budget) {
  if (value.is_undefined()) return undefined_error(value);
  Value out;
  if (find_own(value, name, out)) return out;
  const Value key = Value::string(std::string(name), true);
  QUIRE_ASSIGN_OR_RETURN(const bool found, find_item(value, key, out, budget));
  return found ? out : missing(value, name);
}

Result<Value> get_item(const Value& value, const Value& key, Budget& budget) {
  if (value.is_undefined()) return undefined_error(value);
  Value out;
  QUIRE_ASSIGN_OR_RETURN(const bool found, find_item(value, key, out, budget));
  if (found) return out;
  if (key.is_string()) {
    if (find_own(value, key.view(), out)) return out;
    return missing(value, key.view());
  }
  return Value::undefined("'" + std::string(kind_name(value)) + " object' has no such element");
}

Result<Value> get_slice(const Value& value, const Value& start, const Value& stop,
                        const Value& step, Budget& budget) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_string()) {
    const std::string_view view = value.view();
    QUIRE_RETURN_IF_ERROR(budget.scan(2 * view.size()));
    QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + value.text().weight()));
    QUIRE_ASSIGN_OR_RETURN(const std::vector<std::size_t> positions,
                           slice_positions(start, stop, step, code_point_count(view), budget));
    if (positions.empty()) return Value::string(Text(), value.is_markup());
    if (step.is_none() || step.as_int() == 1) {
      const std::size_t begin = byte_offset(view, positions.front());
      const std::size_t end = byte_offset(view, positions.size(), begin);
      return Value::string(value.text().substr(begin, end), value.is_markup());
    }
    QUIRE_RETURN_IF_ERROR(budget.characters(view.size()));
    QUIRE_RETURN_IF_ERROR(budget.step(positions.size() / 2));
    QUIRE_ASSIGN_OR_RETURN(const Budget::Loan loan,
                           budget.borrow(2 * view.size() * sizeof(std::size_t)));
    std::vector<std::size_t> offsets;
    for (std::size_t i = 0; i < view.size();) {
      offsets.push_back(i);
      next_code_point(view, i);
    }
    offsets.push_back(view.size());
    Text out;
    for (const std::size_t i : positions) {
      out.append_part(value.text(), offsets[i], offsets[i + 1]);
    }
    return Value::string(std::move(out), value.is_markup());
  }
  if (value.is_sequence()) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<std::size_t> positions,
                           slice_positions(start, stop, step, value.items().size(), budget));
    QUIRE_RETURN_IF_ERROR(budget.bytes(positions.size() * sizeof(Value)));
    std::vector<Value> items;
    items.reserve(positions.size());
    for (const std::size_t i : positions) items.push_back(value.items()[i]);
    return make_sequence(value.kind(), std::move(items), budget);
  }
  if (value.is(Kind::kRange)) {
    const auto& range = value.as<RangeObject>();
    QUIRE_ASSIGN_OR_RETURN(
        const std::vector<std::size_t> positions,
        slice_positions(start, stop, step, static_cast<std::size_t>(range.length()), budget));
    auto out = std::make_shared<RangeObject>();
    const Int by = step.is_none() ? 1 : step.as_int();
    if (by > kMaxRangeBound || by < -kMaxRangeBound) {
      return Status::invalid_argument("slice step out of range");
    }
    out->step = range.step * by;  // of two numbers of 60 bits
    if (out->step > kMaxRangeBound || out->step < -kMaxRangeBound) {
      return Status::invalid_argument("slice step out of range");
    }
    if (!positions.empty()) {
      out->start = range.start + static_cast<Int>(positions.front()) * range.step;
      out->stop = out->start + static_cast<Int>(positions.size()) * out->step;
    }
    return Value::object(Kind::kRange, std::move(out));
  }
  return Status::invalid_argument("'" + std::string(kind_name(value)) +
                                  "' object cannot be sliced");
}

Result<Value> get_path(Value value, const Value& path, const Value* fallback, Budget& budget) {
  const auto follow = [&](const Value& key) -> Status {
    QUIRE_RETURN_IF_ERROR(budget.step());
    QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes));
    QUIRE_ASSIGN_OR_RETURN(value, get_item(value, key, budget));
    if (fallback != nullptr && value.is_undefined()) value = *fallback;
    return {};
  };
  if (path.is_none()) return value;
  if (!path.is_string()) {
    QUIRE_RETURN_IF_ERROR(follow(path));
    return value;
  }
  std::string_view rest = path.view();
  QUIRE_RETURN_IF_ERROR(budget.scan(4 * rest.size()));
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const bool is_index = !part.empty() && part.size() < 18 &&
                          part.find_first_not_of("0123456789") == std::string_view::npos;
    QUIRE_RETURN_IF_ERROR(follow(is_index ? Value::integer(std::stoll(std::string(part)))
                                          : Value::string(std::string(part), true)));
    if (dot == std::string_view::npos) return value;
    rest = rest.substr(dot + 1);
  }
}

}  // namespace quire::jinja
