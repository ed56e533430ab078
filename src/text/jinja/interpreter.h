// Runs a parsed template over its variables and collects the output with its provenance.
//
// Scopes follow Jinja: the bodies of for, macro, call, filter, with and block set have their own;
// if has not. What is set in an inner scope is gone at its end, except in a namespace.
#pragma once

#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/jinja/arguments.h"
#include "text/jinja/ast.h"
#include "text/jinja/budget.h"
#include "text/jinja/operators.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"

namespace quire::jinja {

// Levels of nested statements, expressions and macro calls. Each needs less than 2 KiB of stack
// (without sanitizers), so a render needs less than 2 MiB.
inline constexpr int kMaxRunDepth = 800;

struct Scope {
  explicit Scope(std::shared_ptr<Scope> outer) : parent(std::move(outer)) {}

  std::shared_ptr<Scope> parent;
  std::map<std::string, Value, std::less<>> variables;
  bool is_captured = false;  // by a macro: it stays until the end of the render
};
using ScopePtr = std::shared_ptr<Scope>;

// The state of a for statement, visible to its body as `loop`. Items are drawn lazily, because the
// filter of a loop may depend on what the body has done so far.
struct LoopObject : Object {
  const Stmt* statement = nullptr;
  Items items;
  std::size_t next = 0;
  bool is_filtered = false;  // items still have to pass the statement's test
  ScopePtr outer;            // while the loop runs
  bool has_after = false;    // one item has been drawn ahead
  Value after;
  Value current;
  Value before;
  Int index0 = -1;
  Int length = -1;  // unknown
  int depth0 = 0;
  bool has_changed_value = false;
  std::vector<Value> changed_value;
};

class Interpreter {
 public:
  struct Host {
    std::tm local_time{};  // what strftime_now() shows
    std::size_t max_output_bytes = 0;
  };

  Interpreter(const Host& host, Budget& budget);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  void set_variable(const std::string& name, Value value);
  Result<Text> run(const Block& body);
  int error_line() const { return error_line_; }  // where run() failed; 0 if unknown

 private:
  enum class Flow { kNormal, kBreak, kContinue };

  // Statements (interpreter.cpp).
  Result<Flow> execute_block(const Block& block, const ScopePtr& scope);
  Result<Flow> execute(const Stmt& stmt, const ScopePtr& scope);
  Result<Flow> execute_output(const Stmt& stmt, const ScopePtr& scope);
  Result<Flow> execute_set(const Stmt& stmt, const ScopePtr& scope);
  Result<Flow> execute_macro(const Stmt& stmt, const ScopePtr& scope);
  Result<Flow> execute_if(const Stmt& stmt, const ScopePtr& scope);
  Result<Flow> execute_for(const Stmt& stmt, const ScopePtr& scope);
  Result<Flow> execute_loop(const Stmt& stmt, const Value& iterable, const ScopePtr& scope,
                            int depth0);
  Result<Flow> run_loop(const Stmt& stmt, LoopObject& loop, const Value& loop_value,
                        const ScopePtr& scope);
  Result<Flow> execute_filter_block(const Stmt& stmt, const ScopePtr& scope);
  Result<Flow> execute_set_block(const Stmt& stmt, const ScopePtr& scope);
  Result<Flow> execute_with(const Stmt& stmt, const ScopePtr& scope);
  Result<Flow> execute_call_block(const Stmt& stmt, const ScopePtr& scope);
  Status assign(const Expr& target, Value value, const ScopePtr& scope);
  Status emit(const Text& text);
  // Runs a block with its output collected into `captured`.
  Result<Flow> capture(const Block& block, const ScopePtr& scope, Text& captured);
  Result<Value> make_macro(const Stmt& stmt, std::string name, const ScopePtr& scope);
  Status set_in(Scope& scope, const std::string& name, Value value);

  // Expressions (expressions.cpp).
  Result<Value> evaluate(const Expr& expr, const ScopePtr& scope);
  Result<Value> evaluate_node(const Expr& expr, const ScopePtr& scope);
  Result<Value> evaluate_literal(const Expr& expr);
  Result<Value> evaluate_attribute(const Expr& expr, const ScopePtr& scope);
  Result<Value> evaluate_filter_or_test(const Expr& expr, const ScopePtr& scope);
  Result<Value> evaluate_unary(const Expr& expr, const ScopePtr& scope);
  Result<Value> evaluate_logical(const Expr& expr, const ScopePtr& scope);
  Result<Value> evaluate_binary(const Expr& expr, const ScopePtr& scope);
  Result<Value> evaluate_items(const Expr& expr, const ScopePtr& scope);
  Result<Value> evaluate_item(const Expr& expr, const ScopePtr& scope);
  Result<Value> evaluate_compare(const Expr& expr, const ScopePtr& scope);
  Result<Value> evaluate_concat(const Expr& expr, const ScopePtr& scope);
  Result<Value> evaluate_conditional(const Expr& expr, const ScopePtr& scope);
  Result<Value> evaluate_call(const Expr& expr, const ScopePtr& scope);
  Result<Args> evaluate_args(const CallArgs& args, const ScopePtr& scope);
  Status evaluate_into(const Expr& expr, const ScopePtr& scope, Value& out);
  Status evaluate_spread(const Expr& expr, const ScopePtr& scope, Args& out);
  Status evaluate_keyword_spread(const Expr& expr, const ScopePtr& scope, Args& out);
  Result<Value> lookup(std::string_view name, const ScopePtr& scope);

  // Calls (calls.cpp).
  Result<Value> call(const Value& callee, Args args);
  Result<Value> call_macro(const MacroObject& macro, Args args);
  Status bind_parameters(const MacroObject& macro, Args& args, const ScopePtr& scope);
  Status bind_implicit_names(const MacroObject& macro, Args& args, const ScopePtr& scope);
  Result<Value> call_loop(LoopObject& loop, const Args& args);
  Result<Value> call_loop_method(LoopObject& loop, std::string_view name, const Args& args);
  Result<Value> call_function(std::string_view name, const Args& args);
  Result<Value> make_range(const Args& args);
  Result<Value> make_dict_from(const Args& args);
  Result<Value> make_namespace(const Args& args);
  Result<Value> make_cycler(const Args& args);
  Result<Value> strftime_now(const Args& args);
  Result<bool> draw(LoopObject& loop, Value& item);  // false at the end
  Result<bool> peek(LoopObject& loop);
  Result<Int> loop_length(LoopObject& loop);
  Result<Value> loop_attribute(const Value& value, std::string_view name);

  Status enter(int line);  // counts a step and a level; leave() undoes the level
  void leave() { --depth_; }

  Host host_;
  Budget& budget_;
  ScopePtr globals_;
  Text output_;
  Text* sink_ = &output_;
  const Value* block_text_ = nullptr;  // the body of the filter block being applied
  int depth_ = 0;
  int error_line_ = 0;
  // Namespaces and the scopes that macros capture may refer to themselves; they are kept here and
  // emptied at the end.
  std::vector<std::shared_ptr<NamespaceObject>> namespaces_;
  std::vector<ScopePtr> captured_scopes_;
};

}  // namespace quire::jinja
