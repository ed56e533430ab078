#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/jinja/parser.h"
#include "text/jinja/value.h"

namespace quire::jinja {
namespace {

constexpr std::array<std::string_view, 6> kComparisons = {"==", "!=", "<", "<=", ">", ">="};

bool is_assignable(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kName:
    case ExprKind::kNamespaceRef:
      return true;
    case ExprKind::kTuple:
      return std::all_of(expr.children.begin(), expr.children.end(),
                         [](const ExprPtr& child) { return is_assignable(*child); });
    default:
      return false;
  }
}

}  // namespace

Status ExpressionParser::check_depth(int depth) const {
  if (depth <= kMaxParseDepth) return {};
  return syntax_error(stream_.line(),
                      "nested more than " + std::to_string(kMaxParseDepth) + " deep");
}

ExprPtr ExpressionParser::make(ExprKind kind, int line, std::string name) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  expr->name = std::move(name);
  return expr;
}

void ExpressionParser::add(Expr& parent, ExprPtr child) {
  if (child) parent.depth = std::max(parent.depth, child->depth + 1);
  parent.children.push_back(std::move(child));
}

Result<ExprPtr> ExpressionParser::finish(ExprPtr expr) const {
  QUIRE_RETURN_IF_ERROR(check_depth(expr->depth));
  return expr;
}

Result<ExprPtr> ExpressionParser::binary(ExprPtr left, ExprPtr right, int line, ExprKind kind,
                                         std::string op) {
  ExprPtr expr = make(kind, line, std::move(op));
  add(*expr, std::move(left));
  add(*expr, std::move(right));
  return finish(std::move(expr));
}

Result<ExprPtr> ExpressionParser::expression(bool with_conditional) {
  const Level level(depth_);
  QUIRE_RETURN_IF_ERROR(check_depth(depth_));
  if (!with_conditional) return parse_or();
  int line = stream_.line();
  QUIRE_ASSIGN_OR_RETURN(ExprPtr value, parse_or());
  while (stream_.skip_name("if")) {
    ExprPtr conditional = make(ExprKind::kConditional, line);
    QUIRE_ASSIGN_OR_RETURN(ExprPtr test, parse_or());
    ExprPtr otherwise;
    if (stream_.skip_name("else")) {
      QUIRE_ASSIGN_OR_RETURN(otherwise, expression());
    }
    add(*conditional, std::move(test));
    add(*conditional, std::move(value));
    add(*conditional, std::move(otherwise));
    QUIRE_ASSIGN_OR_RETURN(value, finish(std::move(conditional)));
    line = stream_.line();
  }
  return value;
}

Result<ExprPtr> ExpressionParser::parse_or() {
  int line = stream_.line();
  QUIRE_ASSIGN_OR_RETURN(ExprPtr left, parse_and());
  while (stream_.skip_name("or")) {
    QUIRE_ASSIGN_OR_RETURN(ExprPtr right, parse_and());
    QUIRE_ASSIGN_OR_RETURN(left,
                           binary(std::move(left), std::move(right), line, ExprKind::kOr, "or"));
    line = stream_.line();
  }
  return left;
}

Result<ExprPtr> ExpressionParser::parse_and() {
  int line = stream_.line();
  QUIRE_ASSIGN_OR_RETURN(ExprPtr left, parse_not());
  while (stream_.skip_name("and")) {
    QUIRE_ASSIGN_OR_RETURN(ExprPtr right, parse_not());
    QUIRE_ASSIGN_OR_RETURN(left,
                           binary(std::move(left), std::move(right), line, ExprKind::kAnd, "and"));
    line = stream_.line();
  }
  return left;
}

Result<ExprPtr> ExpressionParser::parse_not() {
  if (!stream_.is_name("not")) return parse_compare();
  const Level level(depth_);
  QUIRE_RETURN_IF_ERROR(check_depth(depth_));
  ExprPtr negation = make(ExprKind::kNot, stream_.take().line);
  QUIRE_ASSIGN_OR_RETURN(ExprPtr operand, parse_not());
  add(*negation, std::move(operand));
  return finish(std::move(negation));
}

Result<ExprPtr> ExpressionParser::parse_compare() {
  ExprPtr compare = make(ExprKind::kCompare, stream_.line());
  QUIRE_ASSIGN_OR_RETURN(ExprPtr operand, parse_sum());
  while (true) {
    std::string op;
    const Token& token = stream_.current();
    if (token.type == TokenType::kOperator &&
        std::find(kComparisons.begin(), kComparisons.end(), token.text) != kComparisons.end()) {
      op = stream_.take().text;
    } else if (stream_.skip_name("in")) {
      op = "in";
    } else if (stream_.is_name("not") &&
               TokenStream::is_token(stream_.look(), TokenType::kName, "in")) {
      stream_.take();
      stream_.take();
      op = "not in";
    } else {
      break;
    }
    if (compare->children.empty()) add(*compare, std::move(operand));
    compare->ops.push_back(std::move(op));
    QUIRE_ASSIGN_OR_RETURN(ExprPtr right, parse_sum());
    add(*compare, std::move(right));
  }
  if (compare->children.empty()) return operand;
  return finish(std::move(compare));
}

Result<ExprPtr> ExpressionParser::parse_sum() {
  int line = stream_.line();
  QUIRE_ASSIGN_OR_RETURN(ExprPtr left, parse_concat());
  while (stream_.is_op("+") || stream_.is_op("-")) {
    std::string op = stream_.take().text;
    QUIRE_ASSIGN_OR_RETURN(ExprPtr right, parse_concat());
    QUIRE_ASSIGN_OR_RETURN(
        left, binary(std::move(left), std::move(right), line, ExprKind::kBinary, std::move(op)));
    line = stream_.line();
  }
  return left;
}

Result<ExprPtr> ExpressionParser::parse_concat() {
  ExprPtr concat = make(ExprKind::kConcat, stream_.line());
  QUIRE_ASSIGN_OR_RETURN(ExprPtr operand, parse_product());
  while (stream_.skip_op("~")) {
    if (concat->children.empty()) add(*concat, std::move(operand));
    QUIRE_ASSIGN_OR_RETURN(ExprPtr right, parse_product());
    add(*concat, std::move(right));
  }
  if (concat->children.empty()) return operand;
  return finish(std::move(concat));
}

Result<ExprPtr> ExpressionParser::parse_product() {
  int line = stream_.line();
  QUIRE_ASSIGN_OR_RETURN(ExprPtr left, parse_power());
  while (stream_.is_op("*") || stream_.is_op("/") || stream_.is_op("//") || stream_.is_op("%")) {
    std::string op = stream_.take().text;
    QUIRE_ASSIGN_OR_RETURN(ExprPtr right, parse_power());
    QUIRE_ASSIGN_OR_RETURN(
        left, binary(std::move(left), std::move(right), line, ExprKind::kBinary, std::move(op)));
    line = stream_.line();
  }
  return left;
}

Result<ExprPtr> ExpressionParser::parse_power() {
  int line = stream_.line();
  QUIRE_ASSIGN_OR_RETURN(ExprPtr left, parse_unary(true));
  while (stream_.skip_op("**")) {
    QUIRE_ASSIGN_OR_RETURN(ExprPtr right, parse_unary(true));
    QUIRE_ASSIGN_OR_RETURN(
        left, binary(std::move(left), std::move(right), line, ExprKind::kBinary, "**"));
    line = stream_.line();
  }
  return left;
}

Result<ExprPtr> ExpressionParser::parse_unary(bool with_filter) {
  ExprPtr value;
  if (stream_.is_op("-") || stream_.is_op("+")) {
    const Level level(depth_);
    QUIRE_RETURN_IF_ERROR(check_depth(depth_));
    const ExprKind kind = stream_.is_op("-") ? ExprKind::kNegative : ExprKind::kPositive;
    ExprPtr sign = make(kind, stream_.take().line);
    QUIRE_ASSIGN_OR_RETURN(ExprPtr operand, parse_unary(false));
    add(*sign, std::move(operand));
    QUIRE_ASSIGN_OR_RETURN(value, finish(std::move(sign)));
  } else {
    QUIRE_ASSIGN_OR_RETURN(value, parse_primary(false));
  }
  QUIRE_ASSIGN_OR_RETURN(value, parse_postfix(std::move(value)));
  if (!with_filter) return value;
  return parse_filters_and_tests(std::move(value));
}

Result<ExprPtr> ExpressionParser::parse_primary(bool with_namespace) {
  const Token& token = stream_.current();
  if (token.type == TokenType::kName) {
    stream_.take();
    const std::string& name = token.text;
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      ExprPtr expr = make(ExprKind::kBool, token.line);
      expr->boolean = name[0] == 't' || name[0] == 'T';
      return expr;
    }
    if (name == "none" || name == "None") return make(ExprKind::kNone, token.line);
    if (with_namespace && stream_.skip_op(".")) {
      ExprPtr expr = make(ExprKind::kNamespaceRef, token.line, name);
      QUIRE_ASSIGN_OR_RETURN(std::string attribute, stream_.expect_name());
      expr->ops.push_back(std::move(attribute));
      return expr;
    }
    implicit_names.caller |= name == "caller";
    implicit_names.varargs |= name == "varargs";
    implicit_names.kwargs |= name == "kwargs";
    return make(ExprKind::kName, token.line, name);
  }
  if (token.type == TokenType::kString) {
    ExprPtr expr = make(ExprKind::kString, token.line);
    while (stream_.is(TokenType::kString)) expr->name += stream_.take().text;
    auto literal = std::make_shared<StringObject>();
    literal->text = Text(expr->name, true);
    literal->depth = 0;
    expr->literal = std::move(literal);
    return expr;
  }
  if (token.type == TokenType::kInt) {
    ExprPtr expr = make(ExprKind::kInt, token.line);
    expr->integer = stream_.take().integer;
    return expr;
  }
  if (token.type == TokenType::kFloat) {
    ExprPtr expr = make(ExprKind::kFloat, token.line);
    expr->number = stream_.take().number;
    return expr;
  }
  if (stream_.is_op("(")) return parse_parenthesized();
  if (stream_.is_op("[")) return parse_list();
  if (stream_.is_op("{")) return parse_dict();
  return stream_.unexpected("an expression");
}

Result<ExprPtr> ExpressionParser::parse_parenthesized() {
  const int line = stream_.take().line;
  if (stream_.skip_op(")")) return make(ExprKind::kTuple, line);
  QUIRE_ASSIGN_OR_RETURN(ExprPtr value, tuple());
  QUIRE_RETURN_IF_ERROR(stream_.expect_op(")"));
  return value;
}

Result<ExprPtr> ExpressionParser::tuple(bool with_conditional, std::string_view end_name) {
  ExprPtr items = make(ExprKind::kTuple, stream_.line());
  QUIRE_ASSIGN_OR_RETURN(ExprPtr first, expression(with_conditional));
  if (!stream_.is_op(",")) return first;
  add(*items, std::move(first));
  while (stream_.skip_op(",")) {
    if (stream_.is(TokenType::kVariableEnd) || stream_.is(TokenType::kBlockEnd) ||
        stream_.is_op(")") || (!end_name.empty() && stream_.is_name(end_name))) {
      break;
    }
    QUIRE_ASSIGN_OR_RETURN(ExprPtr item, expression(with_conditional));
    add(*items, std::move(item));
  }
  return finish(std::move(items));
}

Result<ExprPtr> ExpressionParser::target(bool with_namespace, std::string_view end_name) {
  const int line = stream_.line();
  ExprPtr items = make(ExprKind::kTuple, line);
  QUIRE_ASSIGN_OR_RETURN(ExprPtr result, parse_primary(with_namespace));
  if (stream_.is_op(",")) {
    add(*items, std::move(result));
    while (stream_.skip_op(",")) {
      if (stream_.is(TokenType::kBlockEnd) || stream_.is_op("=") ||
          (!end_name.empty() && stream_.is_name(end_name))) {
        break;
      }
      QUIRE_ASSIGN_OR_RETURN(ExprPtr item, parse_primary(with_namespace));
      add(*items, std::move(item));
    }
    result = std::move(items);
  }
  if (!is_assignable(*result)) return syntax_error(line, "this cannot be assigned to");
  return result;
}

Result<ExprPtr> ExpressionParser::parse_list() {
  ExprPtr list = make(ExprKind::kList, stream_.take().line);
  while (!stream_.is_op("]")) {
    QUIRE_ASSIGN_OR_RETURN(ExprPtr item, expression());
    add(*list, std::move(item));
    if (!stream_.skip_op(",")) break;
  }
  QUIRE_RETURN_IF_ERROR(stream_.expect_op("]"));
  return finish(std::move(list));
}

Result<ExprPtr> ExpressionParser::parse_dict() {
  ExprPtr dict = make(ExprKind::kDict, stream_.take().line);
  while (!stream_.is_op("}")) {
    QUIRE_ASSIGN_OR_RETURN(ExprPtr key, expression());
    QUIRE_RETURN_IF_ERROR(stream_.expect_op(":"));
    QUIRE_ASSIGN_OR_RETURN(ExprPtr value, expression());
    add(*dict, std::move(key));
    add(*dict, std::move(value));
    if (!stream_.skip_op(",")) break;
  }
  QUIRE_RETURN_IF_ERROR(stream_.expect_op("}"));
  return finish(std::move(dict));
}

}  // namespace quire::jinja
