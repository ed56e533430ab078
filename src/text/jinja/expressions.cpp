// Evaluation of expressions.
#include <utility>

#include "base/printable.h"
#include "text/jinja/attributes.h"
#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/printing.h"

namespace quire::jinja {

Result<Value> Interpreter::lookup(std::string_view name, const ScopePtr& scope) {
  for (const Scope* at = scope.get(); at != nullptr; at = at->parent.get()) {
    QUIRE_RETURN_IF_ERROR(budget_.step());
    const auto it = at->variables.find(name);
    if (it != at->variables.end()) return it->second;
  }
  return Value::undefined("'" + printable(name) + "' is undefined");
}

Result<Value> Interpreter::evaluate(const Expr& expr, const ScopePtr& scope) {
  QUIRE_RETURN_IF_ERROR(enter(expr.line));
  Result<Value> value = evaluate_node(expr, scope);
  leave();
  if (!value.ok() && error_line_ == 0) error_line_ = expr.line;
  return value;
}

// Only chooses: its frame is part of every level of recursion, so it has no values of its own.
Result<Value> Interpreter::evaluate_node(const Expr& expr, const ScopePtr& scope) {
  switch (expr.kind) {
    case ExprKind::kNone:
    case ExprKind::kBool:
    case ExprKind::kInt:
    case ExprKind::kFloat:
    case ExprKind::kString:
      return evaluate_literal(expr);
    case ExprKind::kName:
    case ExprKind::kNamespaceRef:
      return lookup(expr.name, scope);
    case ExprKind::kBlockText:
      return block_text_ == nullptr ? Value() : *block_text_;
    case ExprKind::kList:
    case ExprKind::kTuple:
    case ExprKind::kDict:
      return evaluate_items(expr, scope);
    case ExprKind::kAttribute:
      return evaluate_attribute(expr, scope);
    case ExprKind::kItem:
      return evaluate_item(expr, scope);
    case ExprKind::kSlice:
      return Status::invalid_argument("a slice among several indices");
    case ExprKind::kCall:
      return evaluate_call(expr, scope);
    case ExprKind::kFilter:
    case ExprKind::kTest:
      return evaluate_filter_or_test(expr, scope);
    case ExprKind::kNot:
    case ExprKind::kNegative:
    case ExprKind::kPositive:
      return evaluate_unary(expr, scope);
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return evaluate_logical(expr, scope);
    case ExprKind::kBinary:
      return evaluate_binary(expr, scope);
    case ExprKind::kConcat:
      return evaluate_concat(expr, scope);
    case ExprKind::kCompare:
      return evaluate_compare(expr, scope);
    case ExprKind::kConditional:
      return evaluate_conditional(expr, scope);
  }
  return Status::internal("unknown kind of expression");
}

Result<Value> Interpreter::evaluate_literal(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kBool:
      return Value::boolean(expr.boolean);
    case ExprKind::kInt:
      return Value::integer(expr.integer);
    case ExprKind::kFloat:
      return Value::number(expr.number);
    case ExprKind::kString:
      return Value::object(Kind::kString, expr.literal);
    default:
      return Value::none();
  }
}

Result<Value> Interpreter::evaluate_attribute(const Expr& expr, const ScopePtr& scope) {
  QUIRE_ASSIGN_OR_RETURN(const Value value, evaluate(*expr.children[0], scope));
  if (value.is(Kind::kLoop)) return loop_attribute(value, expr.name);
  return get_attribute(value, expr.name, budget_);
}

Result<Value> Interpreter::evaluate_filter_or_test(const Expr& expr, const ScopePtr& scope) {
  QUIRE_ASSIGN_OR_RETURN(const Value value, evaluate(*expr.children[0], scope));
  QUIRE_ASSIGN_OR_RETURN(const Args args, evaluate_args(expr.args, scope));
  if (expr.kind == ExprKind::kFilter) return apply_filter(expr.name, value, args, budget_);
  QUIRE_ASSIGN_OR_RETURN(const bool passes, apply_test(expr.name, value, args, budget_));
  return Value::boolean(passes);
}

Result<Value> Interpreter::evaluate_unary(const Expr& expr, const ScopePtr& scope) {
  QUIRE_ASSIGN_OR_RETURN(const Value value, evaluate(*expr.children[0], scope));
  if (expr.kind == ExprKind::kNot) return Value::boolean(!is_true(value));
  QUIRE_ASSIGN_OR_RETURN(Value negative, negate(value));
  if (expr.kind == ExprKind::kNegative) return negative;
  return negate(negative);
}

Result<Value> Interpreter::evaluate_logical(const Expr& expr, const ScopePtr& scope) {
  QUIRE_ASSIGN_OR_RETURN(Value left, evaluate(*expr.children[0], scope));
  if (is_true(left) == (expr.kind == ExprKind::kOr)) return left;
  return evaluate(*expr.children[1], scope);
}

Result<Value> Interpreter::evaluate_binary(const Expr& expr, const ScopePtr& scope) {
  QUIRE_ASSIGN_OR_RETURN(const Value left, evaluate(*expr.children[0], scope));
  QUIRE_ASSIGN_OR_RETURN(const Value right, evaluate(*expr.children[1], scope));
  return arithmetic(expr.name, left, right, budget_);
}

Result<Value> Interpreter::evaluate_items(const Expr& expr, const ScopePtr& scope) {
  std::vector<Value> items;
  items.reserve(expr.children.size());
  for (const ExprPtr& child : expr.children) {
    QUIRE_ASSIGN_OR_RETURN(Value item, evaluate(*child, scope));
    items.push_back(std::move(item));
  }
  if (expr.kind != ExprKind::kDict) {
    return make_sequence(expr.kind == ExprKind::kList ? Kind::kList : Kind::kTuple,
                         std::move(items), budget_);
  }
  std::vector<std::pair<Value, Value>> entries;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    entries.emplace_back(std::move(items[i]), std::move(items[i + 1]));
  }
  return make_dict(std::move(entries), budget_);
}

Result<Value> Interpreter::evaluate_item(const Expr& expr, const ScopePtr& scope) {
  QUIRE_ASSIGN_OR_RETURN(const Value value, evaluate(*expr.children[0], scope));
  const Expr& index = *expr.children[1];
  if (index.kind != ExprKind::kSlice) {
    QUIRE_ASSIGN_OR_RETURN(const Value key, evaluate(index, scope));
    if (value.is(Kind::kLoop) && key.is_string()) return loop_attribute(value, key.view());
    return get_item(value, key, budget_);
  }
  Value parts[3] = {Value::none(), Value::none(), Value::none()};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!index.children[i]) continue;
    QUIRE_ASSIGN_OR_RETURN(parts[i], evaluate(*index.children[i], scope));
  }
  return get_slice(value, parts[0], parts[1], parts[2], budget_);
}

Result<Value> Interpreter::evaluate_compare(const Expr& expr, const ScopePtr& scope) {
  QUIRE_ASSIGN_OR_RETURN(Value left, evaluate(*expr.children[0], scope));
  for (std::size_t i = 0; i < expr.ops.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(Value right, evaluate(*expr.children[i + 1], scope));
    QUIRE_ASSIGN_OR_RETURN(const bool holds, compare(expr.ops[i], left, right, budget_));
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Result<Value> Interpreter::evaluate_concat(const Expr& expr, const ScopePtr& scope) {
  Text out;
  for (const ExprPtr& child : expr.children) {
    QUIRE_ASSIGN_OR_RETURN(const Value value, evaluate(*child, scope));
    QUIRE_ASSIGN_OR_RETURN(const Text text, to_text(value, budget_));
    QUIRE_RETURN_IF_ERROR(budget_.scan(2 * text.size()));
    QUIRE_RETURN_IF_ERROR(budget_.bytes(kObjectBytes + 2 * text.weight()));
    out.append(text);
  }
  return Value::string(std::move(out));
}

Result<Value> Interpreter::evaluate_conditional(const Expr& expr, const ScopePtr& scope) {
  QUIRE_ASSIGN_OR_RETURN(const Value test, evaluate(*expr.children[0], scope));
  if (is_true(test)) return evaluate(*expr.children[1], scope);
  if (expr.children[2]) return evaluate(*expr.children[2], scope);
  return Value::undefined("the inline if-expression evaluated to false and has no else");
}

Result<Value> Interpreter::evaluate_call(const Expr& expr, const ScopePtr& scope) {
  QUIRE_ASSIGN_OR_RETURN(const Value callee, evaluate(*expr.children[0], scope));
  if (callee.is_undefined()) return undefined_error(callee);
  QUIRE_ASSIGN_OR_RETURN(Args args, evaluate_args(expr.args, scope));
  return call(callee, std::move(args));
}

Result<Args> Interpreter::evaluate_args(const CallArgs& args, const ScopePtr& scope) {
  Args out;
  for (const ExprPtr& expr : args.positional) {
    out.positional.emplace_back();
    QUIRE_RETURN_IF_ERROR(evaluate_into(*expr, scope, out.positional.back()));
  }
  if (args.spread) QUIRE_RETURN_IF_ERROR(evaluate_spread(*args.spread, scope, out));
  for (const auto& [name, expr] : args.keywords) {
    out.keywords.emplace_back(name, Value());
    QUIRE_RETURN_IF_ERROR(evaluate_into(*expr, scope, out.keywords.back().second));
  }
  if (args.keyword_spread) {
    QUIRE_RETURN_IF_ERROR(evaluate_keyword_spread(*args.keyword_spread, scope, out));
  }
  return out;
}

Status Interpreter::evaluate_into(const Expr& expr, const ScopePtr& scope, Value& out) {
  QUIRE_ASSIGN_OR_RETURN(out, evaluate(expr, scope));
  return {};
}

Status Interpreter::evaluate_spread(const Expr& expr, const ScopePtr& scope, Args& out) {
  QUIRE_ASSIGN_OR_RETURN(const Value spread, evaluate(expr, scope));
  QUIRE_ASSIGN_OR_RETURN(Items items, iterate(spread, budget_));
  QUIRE_RETURN_IF_ERROR(budget_.bytes(items.values.size() * sizeof(Value)));
  out.positional.insert(out.positional.end(), items.values.begin(), items.values.end());
  return {};
}

Status Interpreter::evaluate_keyword_spread(const Expr& expr, const ScopePtr& scope, Args& out) {
  QUIRE_ASSIGN_OR_RETURN(const Value spread, evaluate(expr, scope));
  if (!spread.is_dict()) return Status::invalid_argument("** needs a mapping");
  for (const auto& [key, value] : spread.dict().entries) {
    if (!key.is_string()) return Status::invalid_argument("keywords must be strings");
    if (out.keyword(key.view()) != nullptr) {
      return Status::invalid_argument("got two values for keyword argument '" +
                                      printable(key.view()) + "'");
    }
    QUIRE_RETURN_IF_ERROR(budget_.step(1 + out.keywords.size() / 8));
    QUIRE_RETURN_IF_ERROR(budget_.bytes(kObjectBytes + key.view().size()));
    out.keywords.emplace_back(std::string(key.view()), value);
  }
  return {};
}

}  // namespace quire::jinja
