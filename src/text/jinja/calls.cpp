// What templates can call: macros, methods, loops and the global functions.
#include <algorithm>
#include <array>
#include <utility>

#include "base/printable.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"

namespace quire::jinja {
namespace {

constexpr Int kMaxRangeLength = 100000;  // of Jinja's sandbox
constexpr std::size_t kMaxTimeText = 4096;
constexpr std::size_t kMaxRaisedBytes = 800;  // of a message that a template raises

}  // namespace

Result<Value> Interpreter::call(const Value& callee, Args args) {
  switch (callee.kind()) {
    case Kind::kUndefined:
      return undefined_error(callee);
    case Kind::kMacro:
      return call_macro(callee.as<MacroObject>(), std::move(args));
    case Kind::kMethod: {
      const auto& method = callee.as<MethodObject>();
      if (method.receiver.is(Kind::kLoop)) {
        return call_loop_method(method.receiver.as<LoopObject>(), method.name, args);
      }
      return call_method(method.receiver, method.name, args, budget_);
    }
    case Kind::kFunction:
      return call_function(callee.as<FunctionObject>().name, args);
    case Kind::kLoop:
      return call_loop(callee.as<LoopObject>(), args);
    case Kind::kJoiner: {
      QUIRE_RETURN_IF_ERROR(Bound::bind(args, "joiner", {}).status());
      auto& joiner = callee.as<JoinerObject>();
      return std::exchange(joiner.used, true) ? joiner.separator : Value::string("", true);
    }
    default:
      return Status::invalid_argument("'" + std::string(kind_name(callee)) +
                                      "' object is not callable");
  }
}

Result<Value> Interpreter::call_macro(const MacroObject& macro, Args args) {
  const auto scope = std::make_shared<Scope>(macro.closure);
  QUIRE_RETURN_IF_ERROR(bind_parameters(macro, args, scope));
  QUIRE_RETURN_IF_ERROR(bind_implicit_names(macro, args, scope));
  Text out;
  QUIRE_RETURN_IF_ERROR(capture(macro.definition->body, scope, out).status());
  return Value::string(std::move(out));
}

Status Interpreter::bind_parameters(const MacroObject& macro, Args& args, const ScopePtr& scope) {
  const Signature& signature = macro.definition->signature;
  const std::size_t count = signature.parameters.size();
  const std::size_t without_default = count - signature.defaults.size();
  for (std::size_t i = 0; i < count; ++i) {
    QUIRE_RETURN_IF_ERROR(budget_.step(1 + args.keywords.size() / 4));
    const std::string& name = signature.parameters[i];
    Value value;
    if (i < args.positional.size()) {
      value = args.positional[i];
    } else if (!args.take_keyword(name, value)) {
      if (i < without_default) {
        value = Value::undefined("parameter '" + name + "' was not provided");
      } else {
        QUIRE_RETURN_IF_ERROR(
            evaluate_into(*signature.defaults[i - without_default], scope, value));
      }
    }
    scope->variables.insert_or_assign(name, std::move(value));
  }
  return {};
}

// What is left of the arguments goes to caller, kwargs and varargs, where the body names them.
Status Interpreter::bind_implicit_names(const MacroObject& macro, Args& args,
                                        const ScopePtr& scope) {
  const Stmt& definition = *macro.definition;
  const std::size_t count = definition.signature.parameters.size();
  if (definition.uses_caller) {
    Value caller;
    if (!args.take_keyword("caller", caller)) caller = Value::undefined("No caller defined");
    scope->variables.insert_or_assign("caller", std::move(caller));
  }
  if (definition.uses_kwargs) {
    std::vector<std::pair<Value, Value>> entries;
    for (auto& [key, value] : args.keywords) {
      entries.emplace_back(Value::string(key, true), std::move(value));
    }
    QUIRE_ASSIGN_OR_RETURN(Value kwargs, make_dict(std::move(entries), budget_));
    scope->variables.insert_or_assign("kwargs", std::move(kwargs));
  } else if (!args.keywords.empty()) {
    return Status::invalid_argument("macro '" + macro.name + "' takes no keyword argument '" +
                                    printable(args.keywords[0].first) + "'");
  }
  if (definition.uses_varargs) {
    std::vector<Value> rest;
    for (std::size_t i = count; i < args.positional.size(); ++i) rest.push_back(args.positional[i]);
    QUIRE_ASSIGN_OR_RETURN(Value varargs, make_sequence(Kind::kTuple, std::move(rest), budget_));
    scope->variables.insert_or_assign("varargs", std::move(varargs));
  } else if (args.positional.size() > count) {
    return Status::invalid_argument("macro '" + macro.name + "' takes not more than " +
                                    std::to_string(count) + " argument(s)");
  }
  return {};
}

Result<Value> Interpreter::call_loop(LoopObject& loop, const Args& args) {
  if (!loop.statement->recursive) {
    return Status::invalid_argument(
        "the loop must have the 'recursive' marker to be called recursively");
  }
  if (loop.outer == nullptr) return Status::invalid_argument("the loop has ended");
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, "loop", {"iterable"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  Text out;
  Text* outer = std::exchange(sink_, &out);
  const Result<Flow> flow = execute_loop(*loop.statement, bound.at(0), loop.outer, loop.depth0 + 1);
  sink_ = outer;
  if (!flow.ok()) return flow.status();
  return Value::string(std::move(out));
}

Result<Value> Interpreter::call_loop_method(LoopObject& loop, std::string_view name,
                                            const Args& args) {
  if (!args.keywords.empty()) {
    return Status::invalid_argument("loop." + std::string(name) + " takes no keyword arguments");
  }
  if (name == "cycle") {
    if (args.positional.empty()) return Status::invalid_argument("no items for cycling given");
    return args.positional[static_cast<std::size_t>(loop.index0 %
                                                    static_cast<Int>(args.positional.size()))];
  }
  QUIRE_ASSIGN_OR_RETURN(const Value before,
                         make_sequence(Kind::kTuple, loop.changed_value, budget_));
  QUIRE_ASSIGN_OR_RETURN(const Value now, make_sequence(Kind::kTuple, args.positional, budget_));
  QUIRE_ASSIGN_OR_RETURN(const bool same, is_equal(before, now, budget_));
  if (std::exchange(loop.has_changed_value, true) && same) return Value::boolean(false);
  loop.depth = std::max(loop.depth, now.depth() + 1);
  QUIRE_RETURN_IF_ERROR(check_value_depth(loop.depth));
  loop.changed_value = args.positional;
  return Value::boolean(true);
}

Result<bool> Interpreter::draw(LoopObject& loop, Value& item) {
  while (loop.next < loop.items.values.size()) {
    QUIRE_RETURN_IF_ERROR(budget_.step());
    item = loop.items.values[loop.next++];
    if (!loop.is_filtered) return true;
    const auto scope = std::make_shared<Scope>(loop.outer);
    QUIRE_RETURN_IF_ERROR(assign(*loop.statement->target, item, scope));
    QUIRE_ASSIGN_OR_RETURN(const Value passes, evaluate(*loop.statement->test, scope));
    if (is_true(passes)) return true;
  }
  return false;
}

Result<bool> Interpreter::peek(LoopObject& loop) {
  if (!loop.has_after) {
    QUIRE_ASSIGN_OR_RETURN(loop.has_after, draw(loop, loop.after));
  }
  return loop.has_after;
}

Result<Int> Interpreter::loop_length(LoopObject& loop) {
  if (loop.length >= 0) return loop.length;
  std::vector<Value> rest;  // that pass the filter
  Value item;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const bool has_item, draw(loop, item));
    if (!has_item) break;
    rest.push_back(item);
  }
  loop.items.values = std::move(rest);
  loop.next = 0;
  loop.is_filtered = false;
  loop.length =
      static_cast<Int>(loop.items.values.size()) + loop.index0 + 1 + (loop.has_after ? 1 : 0);
  return loop.length;
}

Result<Value> Interpreter::loop_attribute(const Value& value, std::string_view name) {
  auto& loop = value.as<LoopObject>();
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem") {
    return loop.index0 == 0 ? Value::undefined("there is no previous item") : loop.before;
  }
  if (name == "last" || name == "nextitem") {
    QUIRE_ASSIGN_OR_RETURN(const bool has_next, peek(loop));
    if (name == "last") return Value::boolean(!has_next);
    return has_next ? loop.after : Value::undefined("there is no next item");
  }
  if (name == "length" || name == "revindex" || name == "revindex0") {
    QUIRE_ASSIGN_OR_RETURN(const Int count, loop_length(loop));
    if (name == "length") return Value::integer(count);
    return Value::integer(count - loop.index0 - (name == "revindex" ? 0 : 1));
  }
  if (name == "cycle" || name == "changed") {
    auto method = std::make_shared<MethodObject>();
    method->receiver = value;
    method->name = name;
    method->depth = value.depth() + 1;
    return Value::object(Kind::kMethod, std::move(method));
  }
  return Value::undefined("'LoopContext object' has no attribute '" + printable(name) + "'");
}

Result<Value> Interpreter::call_function(std::string_view name, const Args& args) {
  if (name == "range") return make_range(args);
  if (name == "dict") return make_dict_from(args);
  if (name == "namespace") return make_namespace(args);
  if (name == "cycler") return make_cycler(args);
  if (name == "strftime_now") return strftime_now(args);
  if (name == "joiner") {
    QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, "joiner", {"sep"}));
    QUIRE_RETURN_IF_ERROR(budget_.bytes(kObjectBytes));
    auto joiner = std::make_shared<JoinerObject>();
    QUIRE_ASSIGN_OR_RETURN(joiner->separator, bound.string(0, ", "));
    return Value::object(Kind::kJoiner, std::move(joiner));
  }
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, "raise_exception", {"message"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  if (bound.at(0).is_string()) QUIRE_RETURN_IF_ERROR(budget_.bytes(bound.at(0).text().weight()));
  QUIRE_ASSIGN_OR_RETURN(const Text message, to_text(bound.at(0), budget_));
  return Status::invalid_argument(printable(message.view(), kMaxRaisedBytes));
}

Result<Value> Interpreter::make_range(const Args& args) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, "range", {"start", "stop", "step"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  auto range = std::make_shared<RangeObject>();
  if (bound.has(1)) {
    QUIRE_ASSIGN_OR_RETURN(range->start, bound.integer(0, 0));
    QUIRE_ASSIGN_OR_RETURN(range->stop, bound.integer(1, 0));
    QUIRE_ASSIGN_OR_RETURN(range->step, bound.integer(2, 1));
  } else {
    QUIRE_ASSIGN_OR_RETURN(range->stop, bound.integer(0, 0));
  }
  if (range->step == 0) return Status::invalid_argument("range: step must not be zero");
  for (const Int part : {range->start, range->stop, range->step}) {
    if (part > kMaxRangeBound || part < -kMaxRangeBound) {
      return Status::invalid_argument("range: argument out of range");
    }
  }
  if (range->length() > kMaxRangeLength) {
    return Status::resource_exhausted("range of more than 100000 elements");
  }
  return Value::object(Kind::kRange, std::move(range));
}

Result<Value> Interpreter::make_dict_from(const Args& args) {
  std::vector<std::pair<Value, Value>> entries;
  if (args.positional.size() > 1) return Status::invalid_argument("dict takes one argument");
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is_undefined()) return undefined_error(source);
    if (source.is_dict()) {
      QUIRE_RETURN_IF_ERROR(budget_.step(source.dict().entries.size()));
      QUIRE_RETURN_IF_ERROR(budget_.bytes(source.dict().entries.size() * 2 * sizeof(Value)));
      entries = source.dict().entries;
    } else {
      QUIRE_ASSIGN_OR_RETURN(const Items pairs, iterate(source, budget_));
      for (const Value& pair : pairs.values) {
        QUIRE_RETURN_IF_ERROR(budget_.step());
        QUIRE_ASSIGN_OR_RETURN(const Items walked, iterate(pair, budget_));
        const std::vector<Value>& both = walked.values;
        if (both.size() != 2) return Status::invalid_argument("dict needs pairs");
        entries.emplace_back(both[0], both[1]);
      }
    }
  }
  for (const auto& [key, value] : args.keywords) {
    entries.emplace_back(Value::string(key, true), value);
  }
  return make_dict(std::move(entries), budget_);
}

Result<Value> Interpreter::make_namespace(const Args& args) {
  QUIRE_ASSIGN_OR_RETURN(const Value attributes, make_dict_from(args));
  QUIRE_RETURN_IF_ERROR(budget_.step(attributes.dict().entries.size()));
  QUIRE_RETURN_IF_ERROR(
      budget_.bytes(kObjectBytes + attributes.dict().entries.size() * kEntryBytes));
  auto space = std::make_shared<NamespaceObject>();
  space->attributes = attributes.dict();
  namespaces_.push_back(space);
  return Value::object(Kind::kNamespace, std::move(space));
}

Result<Value> Interpreter::make_cycler(const Args& args) {
  if (args.positional.empty() || !args.keywords.empty()) {
    return Status::invalid_argument("cycler needs at least one item");
  }
  QUIRE_RETURN_IF_ERROR(budget_.bytes(kObjectBytes + args.positional.size() * sizeof(Value)));
  auto cycler = std::make_shared<CyclerObject>();
  cycler->items = args.positional;
  for (const Value& item : cycler->items) cycler->depth = std::max(cycler->depth, item.depth() + 1);
  QUIRE_RETURN_IF_ERROR(check_value_depth(cycler->depth));
  return Value::object(Kind::kCycler, std::move(cycler));
}

Result<Value> Interpreter::strftime_now(const Args& args) {
  QUIRE_ASSIGN_OR_RETURN(const Bound bound, Bound::bind(args, "strftime_now", {"format"}));
  QUIRE_RETURN_IF_ERROR(bound.require(0));
  QUIRE_ASSIGN_OR_RETURN(const Value format_value, bound.string(0, ""));
  // Python's datetime without a time zone: %z and %Z are empty; the clock has whole seconds.
  std::string format;
  const std::string_view pattern = format_value.view();
  QUIRE_RETURN_IF_ERROR(budget_.step(50 + pattern.size()));
  QUIRE_RETURN_IF_ERROR(budget_.bytes(kMaxTimeText + 2 * pattern.size()));
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\0') return Status::invalid_argument("strftime_now: format contains NUL");
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      format.push_back(pattern[i]);
      continue;
    }
    const char directive = pattern[++i];
    if (directive == 'z' || directive == 'Z') continue;
    if (directive == 'f') {
      format += "000000";
    } else {
      format += {'%', directive};
    }
  }
  format.push_back(' ');  // so that an empty result differs from one that did not fit
  std::string out(kMaxTimeText, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &host_.local_time));
  if (out.empty()) return Status::resource_exhausted("strftime_now: the result is too long");
  out.pop_back();
  return Value::string(std::move(out), false);
}

}  // namespace quire::jinja
