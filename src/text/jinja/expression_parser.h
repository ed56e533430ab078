// Expressions of chat templates, with Jinja's precedence: conditional, or, and, not, comparison,
// + -, ~, * / // %, **, sign, postfix, filters and tests.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "text/jinja/ast.h"
#include "text/jinja/token_stream.h"

namespace quire::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  Result<ExprPtr> expression(bool with_conditional = true);
  // One expression, or several with commas between as a tuple. `end_name` is a name that may
  // follow a trailing comma ("recursive" after a for's list).
  Result<ExprPtr> tuple(bool with_conditional = true, std::string_view end_name = {});
  // What a for or a set assigns to: a name, a tuple of targets, with `with_namespace` also ns.name.
  Result<ExprPtr> target(bool with_namespace, std::string_view end_name = {});
  // name(args) | name(args) ... applied to `operand`; the stream stands at the first name.
  Result<ExprPtr> filters(ExprPtr operand);

  Status check_depth(int depth) const;

  // Which of the names that a macro gets without declaring them have been seen since last reset.
  struct ImplicitNames {
    bool caller = false;
    bool varargs = false;
    bool kwargs = false;
  };
  ImplicitNames implicit_names;

 private:
  // Counts one level of recursion for as long as it lives.
  class Level {
   public:
    explicit Level(int& depth) : depth_(++depth) {}
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int& depth_;
  };

  ExprPtr make(ExprKind kind, int line, std::string name = {}) const;
  // Adds a child and keeps count of the depth; null children are allowed.
  static void add(Expr& parent, ExprPtr child);
  Result<ExprPtr> finish(ExprPtr expr) const;  // refuses a tree that has become too deep
  Result<ExprPtr> binary(ExprPtr left, ExprPtr right, int line, ExprKind kind, std::string op);

  Result<ExprPtr> parse_or();
  Result<ExprPtr> parse_and();
  Result<ExprPtr> parse_not();
  Result<ExprPtr> parse_compare();
  Result<ExprPtr> parse_sum();
  Result<ExprPtr> parse_concat();
  Result<ExprPtr> parse_product();
  Result<ExprPtr> parse_power();
  Result<ExprPtr> parse_unary(bool with_filter);
  Result<ExprPtr> parse_primary(bool with_namespace);
  Result<ExprPtr> parse_parenthesized();
  Result<ExprPtr> parse_list();
  Result<ExprPtr> parse_dict();
  Result<ExprPtr> parse_postfix(ExprPtr operand);
  Result<ExprPtr> parse_filters_and_tests(ExprPtr operand);
  Result<ExprPtr> parse_subscript(ExprPtr operand);
  Result<ExprPtr> parse_index();
  Result<ExprPtr> parse_call(ExprPtr callee);
  Result<ExprPtr> parse_filter(ExprPtr operand);
  Result<ExprPtr> parse_test(ExprPtr operand);
  Status parse_args(Expr& expr);
  Result<std::string> parse_dotted_name();

  TokenStream& stream_;
  int depth_ = 0;
};

}  // namespace quire::jinja
