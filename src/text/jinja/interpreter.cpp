#include "text/jinja/interpreter.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/jinja/operators.h"
#include "text/jinja/printing.h"

namespace quire::jinja {
namespace {

constexpr std::array<std::string_view, 7> kFunctions = {
    "range", "dict", "namespace", "joiner", "cycler", "raise_exception", "strftime_now"};

}  // namespace

Interpreter::Interpreter(const Host& host, Budget& budget)
    : host_(host), budget_(budget), globals_(std::make_shared<Scope>(nullptr)) {
  for (const std::string_view name : kFunctions) {
    auto function = std::make_shared<FunctionObject>();
    function->name = name;
    set_variable(std::string(name), Value::object(Kind::kFunction, std::move(function)));
  }
}

Interpreter::~Interpreter() {
  for (const auto& space : namespaces_) space->attributes = DictObject();
  for (const ScopePtr& scope : captured_scopes_) scope->variables.clear();
}

void Interpreter::set_variable(const std::string& name, Value value) {
  globals_->variables.insert_or_assign(name, std::move(value));
}

Result<Text> Interpreter::run(const Block& body) {
  const auto scope = std::make_shared<Scope>(globals_);
  const Result<Flow> flow = execute_block(body, scope);
  scope->variables.clear();
  if (!flow.ok()) return flow.status();
  return std::move(output_);
}

Status Interpreter::enter(int line) {
  ++depth_;
  Status status = budget_.step();
  if (status.ok() && depth_ > kMaxRunDepth) {
    status = Status::resource_exhausted("statements and calls nested more than " +
                                        std::to_string(kMaxRunDepth) + " deep");
  }
  if (!status.ok() && error_line_ == 0) error_line_ = line;
  return status;
}

Status Interpreter::emit(const Text& text) {
  QUIRE_RETURN_IF_ERROR(budget_.scan(text.size()));
  if (sink_->size() + text.size() > host_.max_output_bytes) {
    return Status::resource_exhausted("the output is longer than " +
                                      std::to_string(host_.max_output_bytes) + " bytes");
  }
  QUIRE_RETURN_IF_ERROR(budget_.bytes(text.weight()));
  sink_->append(text);
  return {};
}

Result<Interpreter::Flow> Interpreter::execute_block(const Block& block, const ScopePtr& scope) {
  for (const Stmt& stmt : block) {
    QUIRE_RETURN_IF_ERROR(enter(stmt.line));
    const Result<Flow> flow = execute(stmt, scope);
    leave();
    if (!flow.ok()) {
      if (error_line_ == 0) error_line_ = stmt.line;
      return flow.status();
    }
    if (*flow != Flow::kNormal) return *flow;
  }
  return Flow::kNormal;
}

// Only chooses, as evaluate_node() does.
Result<Interpreter::Flow> Interpreter::execute(const Stmt& stmt, const ScopePtr& scope) {
  switch (stmt.kind) {
    case StmtKind::kText:
    case StmtKind::kOutput:
      return execute_output(stmt, scope);
    case StmtKind::kIf:
      return execute_if(stmt, scope);
    case StmtKind::kFor:
      return execute_for(stmt, scope);
    case StmtKind::kSet:
      return execute_set(stmt, scope);
    case StmtKind::kSetBlock:
      return execute_set_block(stmt, scope);
    case StmtKind::kMacro:
      return execute_macro(stmt, scope);
    case StmtKind::kCallBlock:
      return execute_call_block(stmt, scope);
    case StmtKind::kFilterBlock:
      return execute_filter_block(stmt, scope);
    case StmtKind::kWith:
      return execute_with(stmt, scope);
    case StmtKind::kGeneration:
      return execute_block(stmt.body, std::make_shared<Scope>(scope));
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Status::internal("unknown kind of statement");
}

Result<Interpreter::Flow> Interpreter::execute_output(const Stmt& stmt, const ScopePtr& scope) {
  if (stmt.kind == StmtKind::kText) {
    QUIRE_RETURN_IF_ERROR(emit(Text(stmt.text, true)));
    return Flow::kNormal;
  }
  QUIRE_ASSIGN_OR_RETURN(const Value value, evaluate(*stmt.expr, scope));
  if (value.is_string()) {
    QUIRE_RETURN_IF_ERROR(emit(value.text()));
    return Flow::kNormal;
  }
  QUIRE_ASSIGN_OR_RETURN(const Text text, to_text(value, budget_));
  QUIRE_RETURN_IF_ERROR(emit(text));
  return Flow::kNormal;
}

Result<Interpreter::Flow> Interpreter::execute_set(const Stmt& stmt, const ScopePtr& scope) {
  QUIRE_ASSIGN_OR_RETURN(Value value, evaluate(*stmt.expr, scope));
  QUIRE_RETURN_IF_ERROR(assign(*stmt.target, std::move(value), scope));
  return Flow::kNormal;
}

Result<Interpreter::Flow> Interpreter::execute_macro(const Stmt& stmt, const ScopePtr& scope) {
  QUIRE_ASSIGN_OR_RETURN(Value macro, make_macro(stmt, stmt.text, scope));
  QUIRE_RETURN_IF_ERROR(set_in(*scope, stmt.text, std::move(macro)));
  return Flow::kNormal;
}

Result<Interpreter::Flow> Interpreter::execute_if(const Stmt& stmt, const ScopePtr& scope) {
  for (const Branch& branch : stmt.branches) {
    if (branch.test) {
      QUIRE_ASSIGN_OR_RETURN(const Value test, evaluate(*branch.test, scope));
      if (!is_true(test)) continue;
    }
    return execute_block(branch.body, scope);
  }
  return Flow::kNormal;
}

Result<Interpreter::Flow> Interpreter::execute_for(const Stmt& stmt, const ScopePtr& scope) {
  QUIRE_ASSIGN_OR_RETURN(const Value iterable, evaluate(*stmt.expr, scope));
  return execute_loop(stmt, iterable, scope, 0);
}

Result<Interpreter::Flow> Interpreter::execute_loop(const Stmt& stmt, const Value& iterable,
                                                    const ScopePtr& scope, int depth0) {
  auto loop = std::make_shared<LoopObject>();
  QUIRE_ASSIGN_OR_RETURN(loop->items, iterate(iterable, budget_));
  loop->statement = &stmt;
  loop->is_filtered = stmt.test != nullptr;
  loop->outer = scope;
  loop->depth0 = depth0;
  loop->depth = iterable.depth() + 1;
  QUIRE_RETURN_IF_ERROR(check_value_depth(loop->depth));
  if (!loop->is_filtered) loop->length = static_cast<Int>(loop->items.values.size());

  Result<Flow> flow = run_loop(stmt, *loop, Value::object(Kind::kLoop, loop), scope);
  loop->outer = nullptr;  // a loop that is kept in a namespace outlives its scope
  loop->items = Items();
  loop->next = 0;
  return flow;
}

Result<Interpreter::Flow> Interpreter::run_loop(const Stmt& stmt, LoopObject& loop,
                                                const Value& loop_value, const ScopePtr& scope) {
  bool completed_once = false;
  while (true) {
    QUIRE_RETURN_IF_ERROR(budget_.step(4));  // makes a scope
    Value item;
    if (loop.has_after) {
      item = std::move(loop.after);
      loop.has_after = false;
    } else {
      QUIRE_ASSIGN_OR_RETURN(const bool has_item, draw(loop, item));
      if (!has_item) break;
    }
    ++loop.index0;
    loop.before = std::exchange(loop.current, item);
    const auto body_scope = std::make_shared<Scope>(scope);
    body_scope->variables.emplace("loop", loop_value);
    QUIRE_RETURN_IF_ERROR(assign(*stmt.target, std::move(item), body_scope));
    QUIRE_ASSIGN_OR_RETURN(const Flow flow, execute_block(stmt.body, body_scope));
    if (flow == Flow::kBreak) break;
    completed_once |= flow == Flow::kNormal;
  }
  // As in Jinja, else runs when no turn reached the end of the body.
  if (completed_once || stmt.otherwise.empty()) return Flow::kNormal;
  return execute_block(stmt.otherwise, std::make_shared<Scope>(scope));
}

Result<Interpreter::Flow> Interpreter::capture(const Block& block, const ScopePtr& scope,
                                               Text& captured) {
  Text* outer = std::exchange(sink_, &captured);
  Result<Flow> flow = execute_block(block, scope);
  sink_ = outer;
  return flow;
}

Result<Interpreter::Flow> Interpreter::execute_filter_block(const Stmt& stmt,
                                                            const ScopePtr& scope) {
  Text body;
  const auto inner = std::make_shared<Scope>(scope);
  QUIRE_ASSIGN_OR_RETURN(const Flow flow, capture(stmt.body, inner, body));
  if (flow != Flow::kNormal) return flow;
  const Value content = Value::string(std::move(body));
  const Value* outer = std::exchange(block_text_, &content);
  const Result<Value> filtered = evaluate(*stmt.expr, inner);
  block_text_ = outer;
  if (!filtered.ok()) return filtered.status();
  QUIRE_ASSIGN_OR_RETURN(const Text text, to_text(*filtered, budget_));
  QUIRE_RETURN_IF_ERROR(emit(text));
  return Flow::kNormal;
}

Result<Interpreter::Flow> Interpreter::execute_set_block(const Stmt& stmt, const ScopePtr& scope) {
  Text body;
  const auto inner = std::make_shared<Scope>(scope);
  QUIRE_ASSIGN_OR_RETURN(const Flow flow, capture(stmt.body, inner, body));
  if (flow != Flow::kNormal) return flow;
  Value content = Value::string(std::move(body));
  if (stmt.expr) {
    const Value* outer = std::exchange(block_text_, &content);
    Result<Value> filtered = evaluate(*stmt.expr, inner);
    block_text_ = outer;
    QUIRE_RETURN_IF_ERROR(filtered.status());
    content = std::move(filtered).value();
  }
  QUIRE_RETURN_IF_ERROR(assign(*stmt.target, std::move(content), scope));
  return Flow::kNormal;
}

Result<Interpreter::Flow> Interpreter::execute_with(const Stmt& stmt, const ScopePtr& scope) {
  const auto inner = std::make_shared<Scope>(scope);
  for (const auto& [target, expr] : stmt.bindings) {
    QUIRE_ASSIGN_OR_RETURN(Value value, evaluate(*expr, scope));
    QUIRE_RETURN_IF_ERROR(assign(*target, std::move(value), inner));
  }
  return execute_block(stmt.body, inner);
}

// The scope and those around it live on in the macro, with their variables.
Result<Value> Interpreter::make_macro(const Stmt& stmt, std::string name, const ScopePtr& scope) {
  QUIRE_RETURN_IF_ERROR(budget_.bytes(kObjectBytes + sizeof(MacroObject)));
  for (ScopePtr at = scope; at != nullptr && !at->is_captured; at = at->parent) {
    QUIRE_RETURN_IF_ERROR(budget_.step(1 + at->variables.size() / 4));
    QUIRE_RETURN_IF_ERROR(budget_.bytes(kObjectBytes + at->variables.size() * kObjectBytes));
    at->is_captured = true;
    captured_scopes_.push_back(at);
  }
  auto macro = std::make_shared<MacroObject>();
  macro->definition = &stmt;
  macro->name = std::move(name);
  macro->closure = scope;
  return Value::object(Kind::kMacro, std::move(macro));
}

Result<Interpreter::Flow> Interpreter::execute_call_block(const Stmt& stmt, const ScopePtr& scope) {
  const Expr& expr = *stmt.expr;
  QUIRE_ASSIGN_OR_RETURN(const Value callee, evaluate(*expr.children[0], scope));
  QUIRE_ASSIGN_OR_RETURN(Args args, evaluate_args(expr.args, scope));
  QUIRE_ASSIGN_OR_RETURN(Value caller, make_macro(stmt, "caller", scope));
  args.keywords.emplace_back("caller", std::move(caller));
  QUIRE_ASSIGN_OR_RETURN(const Value value, call(callee, std::move(args)));
  QUIRE_ASSIGN_OR_RETURN(const Text text, to_text(value, budget_));
  QUIRE_RETURN_IF_ERROR(emit(text));
  return Flow::kNormal;
}

Status Interpreter::set_in(Scope& scope, const std::string& name, Value value) {
  const auto [variable, is_new] = scope.variables.insert_or_assign(name, std::move(value));
  return is_new && scope.is_captured ? budget_.bytes(kObjectBytes) : Status();
}

Status Interpreter::assign(const Expr& target, Value value, const ScopePtr& scope) {
  if (target.kind == ExprKind::kName) {
    return set_in(*scope, target.name, std::move(value));
  }
  if (target.kind == ExprKind::kNamespaceRef) {
    QUIRE_ASSIGN_OR_RETURN(const Value space, lookup(target.name, scope));
    if (!space.is(Kind::kNamespace)) {
      return Status::invalid_argument("cannot assign attribute on non-namespace object '" +
                                      target.name + "'");
    }
    QUIRE_RETURN_IF_ERROR(budget_.bytes(kObjectBytes));
    space.as<NamespaceObject>().attributes.set(
        "s" + target.ops[0], Value::string(target.ops[0], true), std::move(value));
    return {};
  }
  QUIRE_ASSIGN_OR_RETURN(Items walked, iterate(value, budget_));
  std::vector<Value>& items = walked.values;
  if (items.size() != target.children.size()) {
    return Status::invalid_argument("cannot unpack " + std::to_string(items.size()) +
                                    " values into " + std::to_string(target.children.size()) +
                                    " names");
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(assign(*target.children[i], std::move(items[i]), scope));
  }
  return {};
}

}  // namespace quire::jinja
