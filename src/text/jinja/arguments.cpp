#include "text/jinja/arguments.h"

#include <algorithm>

#include "base/printable.h"
#include "text/jinja/operators.h"

namespace quire::jinja {

const Value* Args::keyword(std::string_view name) const {
  for (const auto& [key, value] : keywords) {
    if (key == name) return &value;
  }
  return nullptr;
}

bool Args::take_keyword(std::string_view name, Value& out) {
  const auto it = std::find_if(keywords.begin(), keywords.end(),
                               [&](const auto& entry) { return entry.first == name; });
  if (it == keywords.end()) return false;
  out = std::move(it->second);
  keywords.erase(it);
  return true;
}

Result<Bound> Bound::bind(const Args& args, std::string what,
                          std::initializer_list<std::string_view> parameters) {
  Bound out;
  out.what_ = std::move(what);
  out.names_ = parameters;
  out.values_.resize(parameters.size(), nullptr);
  if (args.positional.size() > parameters.size()) {
    return Status::invalid_argument(out.what_ + " takes at most " +
                                    std::to_string(parameters.size()) + " arguments, got " +
                                    std::to_string(args.positional.size()));
  }
  for (std::size_t i = 0; i < args.positional.size(); ++i) out.values_[i] = &args.positional[i];
  for (const auto& [key, value] : args.keywords) {
    const auto it = std::find(out.names_.begin(), out.names_.end(), key);
    if (it == out.names_.end()) {
      return Status::invalid_argument(out.what_ + " takes no argument '" + printable(key) + "'");
    }
    const auto i = static_cast<std::size_t>(it - out.names_.begin());
    if (out.values_[i] != nullptr) {
      return Status::invalid_argument(out.what_ + " got two values for '" + printable(key) + "'");
    }
    out.values_[i] = &value;
  }
  return out;
}

Status Bound::require(std::size_t i) const {
  if (has(i)) return {};
  return Status::invalid_argument(what_ + " needs the argument '" + std::string(names_[i]) + "'");
}

Status Bound::wrong(std::size_t i, std::string_view expected) const {
  if (at(i).is_undefined()) return undefined_error(at(i));
  return Status::invalid_argument(what_ + ": '" + std::string(names_[i]) + "' must be " +
                                  std::string(expected) + ", not " + std::string(kind_name(at(i))));
}

Result<Int> Bound::integer(std::size_t i, Int fallback) const {
  if (!has(i)) return fallback;
  if (!at(i).is_integral()) return wrong(i, "an integer");
  return at(i).as_int();
}

bool Bound::truth(std::size_t i, bool fallback) const { return has(i) ? is_true(at(i)) : fallback; }

Result<Value> Bound::string(std::size_t i, std::string_view fallback) const {
  if (!has(i)) return Value::string(std::string(fallback), false);
  if (!at(i).is_string()) return wrong(i, "a string");
  return at(i);
}

}  // namespace quire::jinja
