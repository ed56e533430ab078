// What may follow an operand: attributes, subscripts, calls, filters and tests.
#include <utility>

#include "text/jinja/expression_parser.h"
#include "text/jinja/parser.h"
#include "text/jinja/value.h"

namespace quire::jinja {

Result<ExprPtr> ExpressionParser::parse_postfix(ExprPtr operand) {
  while (true) {
    if (stream_.is_op(".") || stream_.is_op("[")) {
      QUIRE_ASSIGN_OR_RETURN(operand, parse_subscript(std::move(operand)));
    } else if (stream_.is_op("(")) {
      QUIRE_ASSIGN_OR_RETURN(operand, parse_call(std::move(operand)));
    } else {
      return operand;
    }
  }
}

Result<ExprPtr> ExpressionParser::parse_filters_and_tests(ExprPtr operand) {
  while (true) {
    if (stream_.skip_op("|")) {
      QUIRE_ASSIGN_OR_RETURN(operand, parse_filter(std::move(operand)));
    } else if (stream_.is_name("is")) {
      QUIRE_ASSIGN_OR_RETURN(operand, parse_test(std::move(operand)));
    } else if (stream_.is_op("(")) {
      QUIRE_ASSIGN_OR_RETURN(operand, parse_call(std::move(operand)));
    } else {
      return operand;
    }
  }
}

Result<ExprPtr> ExpressionParser::parse_subscript(ExprPtr operand) {
  const int line = stream_.line();
  if (stream_.skip_op(".")) {
    if (stream_.is(TokenType::kInt)) {
      QUIRE_ASSIGN_OR_RETURN(ExprPtr index, parse_primary(false));
      return binary(std::move(operand), std::move(index), line, ExprKind::kItem, {});
    }
    QUIRE_ASSIGN_OR_RETURN(std::string name, stream_.expect_name());
    ExprPtr attribute = make(ExprKind::kAttribute, line, std::move(name));
    add(*attribute, std::move(operand));
    return finish(std::move(attribute));
  }
  stream_.take();
  ExprPtr indices = make(ExprKind::kTuple, line);
  if (!stream_.is_op("]")) {
    do {
      QUIRE_ASSIGN_OR_RETURN(ExprPtr index, parse_index());
      add(*indices, std::move(index));
    } while (stream_.skip_op(","));
  }
  QUIRE_RETURN_IF_ERROR(stream_.expect_op("]"));
  ExprPtr index =
      indices->children.size() == 1 ? std::move(indices->children[0]) : std::move(indices);
  return binary(std::move(operand), std::move(index), line, ExprKind::kItem, {});
}

Result<ExprPtr> ExpressionParser::parse_index() {
  ExprPtr slice = make(ExprKind::kSlice, stream_.line());
  const auto part_ends = [&] { return stream_.is_op("]") || stream_.is_op(","); };
  if (stream_.skip_op(":")) {
    add(*slice, nullptr);
  } else {
    QUIRE_ASSIGN_OR_RETURN(ExprPtr start, expression());
    if (!stream_.skip_op(":")) return start;
    add(*slice, std::move(start));
  }
  ExprPtr stop;
  if (!stream_.is_op(":") && !part_ends()) {
    QUIRE_ASSIGN_OR_RETURN(stop, expression());
  }
  add(*slice, std::move(stop));
  ExprPtr step;
  if (stream_.skip_op(":") && !part_ends()) {
    QUIRE_ASSIGN_OR_RETURN(step, expression());
  }
  add(*slice, std::move(step));
  return slice;
}

Result<ExprPtr> ExpressionParser::parse_call(ExprPtr callee) {
  ExprPtr call = make(ExprKind::kCall, stream_.line());
  add(*call, std::move(callee));
  QUIRE_RETURN_IF_ERROR(parse_args(*call));
  return finish(std::move(call));
}

Status ExpressionParser::parse_args(Expr& expr) {
  const int line = stream_.line();
  CallArgs& args = expr.args;
  const auto bad = [&] { return syntax_error(line, "invalid order of arguments in a call"); };
  const auto deepen = [&](const ExprPtr& child) {
    expr.depth = std::max(expr.depth, child->depth + 1);
  };
  stream_.take();
  while (!stream_.is_op(")")) {
    if (stream_.skip_op("*")) {
      if (args.spread || args.keyword_spread) return bad();
      QUIRE_ASSIGN_OR_RETURN(args.spread, expression());
      deepen(args.spread);
    } else if (stream_.skip_op("**")) {
      if (args.keyword_spread) return bad();
      QUIRE_ASSIGN_OR_RETURN(args.keyword_spread, expression());
      deepen(args.keyword_spread);
    } else if (stream_.is(TokenType::kName) &&
               TokenStream::is_token(stream_.look(), TokenType::kOperator, "=")) {
      if (args.keyword_spread) return bad();
      std::string name = stream_.take().text;
      stream_.take();
      QUIRE_ASSIGN_OR_RETURN(ExprPtr value, expression());
      deepen(value);
      args.keywords.emplace_back(std::move(name), std::move(value));
    } else {
      if (args.spread || args.keyword_spread || !args.keywords.empty()) return bad();
      QUIRE_ASSIGN_OR_RETURN(ExprPtr value, expression());
      deepen(value);
      args.positional.push_back(std::move(value));
    }
    if (!stream_.skip_op(",")) break;
  }
  return stream_.expect_op(")");
}

Result<std::string> ExpressionParser::parse_dotted_name() {
  QUIRE_ASSIGN_OR_RETURN(std::string name, stream_.expect_name());
  while (stream_.skip_op(".")) {
    QUIRE_ASSIGN_OR_RETURN(const std::string part, stream_.expect_name());
    name += "." + part;
  }
  return name;
}

Result<ExprPtr> ExpressionParser::parse_filter(ExprPtr operand) {
  ExprPtr filter = make(ExprKind::kFilter, stream_.line());
  QUIRE_ASSIGN_OR_RETURN(filter->name, parse_dotted_name());
  add(*filter, std::move(operand));
  if (stream_.is_op("(")) QUIRE_RETURN_IF_ERROR(parse_args(*filter));
  return finish(std::move(filter));
}

Result<ExprPtr> ExpressionParser::filters(ExprPtr operand) {
  do {
    QUIRE_ASSIGN_OR_RETURN(operand, parse_filter(std::move(operand)));
  } while (stream_.skip_op("|"));
  return operand;
}

Result<ExprPtr> ExpressionParser::parse_test(ExprPtr operand) {
  const int line = stream_.take().line;
  const bool negated = stream_.skip_name("not");
  ExprPtr test = make(ExprKind::kTest, line);
  QUIRE_ASSIGN_OR_RETURN(test->name, parse_dotted_name());
  add(*test, std::move(operand));
  const Token& next = stream_.current();
  if (stream_.is_op("(")) {
    QUIRE_RETURN_IF_ERROR(parse_args(*test));
  } else if (next.type == TokenType::kString || next.type == TokenType::kInt ||
             next.type == TokenType::kFloat || stream_.is_op("[") || stream_.is_op("{") ||
             (next.type == TokenType::kName && next.text != "else" && next.text != "or" &&
              next.text != "and")) {
    if (stream_.is_name("is")) return syntax_error(line, "tests cannot be chained with is");
    QUIRE_ASSIGN_OR_RETURN(ExprPtr argument, parse_primary(false));
    QUIRE_ASSIGN_OR_RETURN(argument, parse_postfix(std::move(argument)));
    test->depth = std::max(test->depth, argument->depth + 1);
    test->args.positional.push_back(std::move(argument));
  }
  if (!negated) return finish(std::move(test));
  ExprPtr negation = make(ExprKind::kNot, line);
  add(*negation, std::move(test));
  return finish(std::move(negation));
}

}  // namespace quire::jinja
