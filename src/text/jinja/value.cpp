#include "text/jinja/value.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "text/jinja/budget.h"
#include "text/jinja/printing.h"

namespace quire::jinja {
namespace {

struct HintObject : Object {
  std::string hint;
};

constexpr std::size_t kIndexedFrom = 8;  // smaller dicts are searched in order

}  // namespace

Value Value::undefined(std::string hint) {
  auto object = std::make_shared<HintObject>();
  object->hint = std::move(hint);
  return Value::object(Kind::kUndefined, std::move(object));
}

Value Value::boolean(bool value) {
  Value out(Kind::kBool);
  out.integer_ = value ? 1 : 0;
  return out;
}

Value Value::integer(Int value) {
  Value out(Kind::kInt);
  out.integer_ = value;
  return out;
}

Value Value::number(double value) {
  Value out(Kind::kFloat);
  out.number_ = value;
  return out;
}

Value Value::string(Text text, bool is_markup) {
  auto object = std::make_shared<StringObject>();
  object->text = std::move(text);
  object->is_markup = is_markup;
  object->depth = 0;
  return Value::object(Kind::kString, std::move(object));
}

Value Value::string(std::string bytes, bool is_template) {
  return string(Text(std::move(bytes), is_template));
}

Value Value::object(Kind kind, std::shared_ptr<Object> object) {
  Value out(kind);
  out.object_ = std::move(object);
  return out;
}

const Text& Value::text() const { return as<StringObject>().text; }
bool Value::is_markup() const { return is_string() && as<StringObject>().is_markup; }
const std::vector<Value>& Value::items() const { return as<SequenceObject>().items; }
const DictObject& Value::dict() const { return as<DictObject>(); }

std::string_view Value::hint() const {
  return object_ ? std::string_view(static_cast<HintObject&>(*object_).hint)
                 : std::string_view("the value is undefined");
}

Int RangeObject::length() const {
  if (step > 0) return stop > start ? (stop - start + step - 1) / step : 0;
  return start > stop ? (start - stop - step - 1) / -step : 0;
}

const Value* DictObject::find(std::string_view name) const {
  if (entries.size() <= kIndexedFrom) {
    for (const auto& [key, value] : entries) {
      if (key.is_string() && key.view() == name) return &value;
    }
    return nullptr;
  }
  return find_key("s" + std::string(name));
}

const Value* DictObject::find_key(const std::string& hash_key) const {
  const auto it = index_.find(hash_key);
  return it == index_.end() ? nullptr : &entries[it->second].second;
}

void DictObject::set(std::string hash_key, Value key, Value value) {
  const auto [it, is_new] = index_.try_emplace(std::move(hash_key), entries.size());
  depth = std::max({depth, key.depth() + 1, value.depth() + 1});
  if (is_new) {
    entries.emplace_back(std::move(key), std::move(value));
  } else {
    entries[it->second].second = std::move(value);
  }
}

Status check_value_depth(int depth) {
  if (depth <= kMaxValueDepth) return {};
  return Status::resource_exhausted("values nested more than " + std::to_string(kMaxValueDepth) +
                                    " deep");
}

Result<Value> make_sequence(Kind kind, std::vector<Value> items, Budget& budget) {
  QUIRE_RETURN_IF_ERROR(budget.bytes(kObjectBytes + items.size() * sizeof(Value)));
  auto object = std::make_shared<SequenceObject>();
  for (const Value& item : items) object->depth = std::max(object->depth, item.depth() + 1);
  QUIRE_RETURN_IF_ERROR(check_value_depth(object->depth));
  object->items = std::move(items);
  return Value::object(kind, std::move(object));
}

Result<Value> make_iterator(std::string type_name, std::vector<Value> items, Budget& budget) {
  QUIRE_ASSIGN_OR_RETURN(Value out, make_sequence(Kind::kIterator, std::move(items), budget));
  out.as<SequenceObject>().type_name = std::move(type_name);
  return out;
}

Result<Value> make_dict(std::vector<std::pair<Value, Value>> entries, Budget& budget) {
  auto object = std::make_shared<DictObject>();
  for (auto& entry : entries) {
    QUIRE_ASSIGN_OR_RETURN(std::string hash, hash_key(entry.first, budget));
    QUIRE_RETURN_IF_ERROR(budget.bytes(kEntryBytes + hash.size()));
    object->set(std::move(hash), std::move(entry.first), std::move(entry.second));
  }
  QUIRE_RETURN_IF_ERROR(check_value_depth(object->depth));
  return Value::object(Kind::kDict, std::move(object));
}

Result<std::string> hash_key(const Value& key, Budget& budget) {
  switch (key.kind()) {
    case Kind::kString:
      QUIRE_RETURN_IF_ERROR(budget.scan(key.view().size()));
      return "s" + std::string(key.view());
    case Kind::kUndefined:
      return std::string("u");
    case Kind::kNone:
      return std::string("0");
    case Kind::kBool:
    case Kind::kInt:
      return "n" + format_int(key.as_int());
    case Kind::kFloat: {
      const double number = key.as_double();
      if (std::trunc(number) == number && std::fabs(number) < 1e30) {
        return "n" + format_int(static_cast<Int>(number));
      }
      return "f" + format_float(number);
    }
    case Kind::kTuple: {
      std::string out = "t";
      for (const Value& item : key.items()) {
        QUIRE_RETURN_IF_ERROR(budget.step());
        QUIRE_ASSIGN_OR_RETURN(const std::string part, hash_key(item, budget));
        QUIRE_RETURN_IF_ERROR(budget.scan(part.size()));
        out += std::to_string(part.size()) + ":" + part;
      }
      return out;
    }
    default:
      return Status::invalid_argument("unhashable type: '" + std::string(kind_name(key)) + "'");
  }
}

std::string_view kind_name(const Value& value) {
  constexpr std::array<std::string_view, 19> kNames = {
      "Undefined", "NoneType", "bool",        "int",       "float",     "str",       "list",
      "tuple",     "dict",     "range",       "dict view", "generator", "Namespace", "Macro",
      "method",    "function", "LoopContext", "Joiner",    "Cycler"};
  return kNames[static_cast<std::size_t>(value.kind())];
}

}  // namespace quire::jinja
