// The parser's view of the tokens: one of lookahead, and expectations that fail with a position.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/lexer.h"

namespace quire::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[next_]; }
  const Token& look() const { return tokens_[next_ + (next_ + 1 < tokens_.size() ? 1 : 0)]; }
  int line() const { return current().line; }
  bool is(TokenType type) const { return current().type == type; }
  bool is_name(std::string_view name) const { return is_token(current(), TokenType::kName, name); }
  bool is_op(std::string_view op) const { return is_token(current(), TokenType::kOperator, op); }
  static bool is_token(const Token& token, TokenType type, std::string_view text) {
    return token.type == type && token.text == text;
  }

  const Token& take() {
    const Token& token = tokens_[next_];
    if (next_ + 1 < tokens_.size()) ++next_;
    return token;
  }
  bool skip_name(std::string_view name) { return is_name(name) && (take(), true); }
  bool skip_op(std::string_view op) { return is_op(op) && (take(), true); }

  Status expect_op(std::string_view op) {
    return skip_op(op) ? Status() : unexpected("'" + std::string(op) + "'");
  }
  Status expect(TokenType type, std::string_view what) {
    if (!is(type)) return unexpected(std::string(what));
    take();
    return {};
  }
  Result<std::string> expect_name() {
    if (!is(TokenType::kName)) return unexpected("a name");
    return take().text;
  }
  Status unexpected(const std::string& wanted) const {
    return syntax_error(line(), "expected " + wanted + ", found " + describe(current()));
  }

  static std::string describe(const Token& token) {
    switch (token.type) {
      case TokenType::kData:
        return "template text";
      case TokenType::kBlockBegin:
        return "'{%'";
      case TokenType::kBlockEnd:
        return "the end of the statement";
      case TokenType::kVariableBegin:
        return "'{{'";
      case TokenType::kVariableEnd:
        return "the end of the expression";
      case TokenType::kString:
        return "a string";
      case TokenType::kEnd:
        return "the end of the template";
      default:
        return "'" + token.text + "'";
    }
  }

 private:
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
};

}  // namespace quire::jinja
