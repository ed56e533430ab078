// Splits a chat template into tokens under Hugging Face's settings: trim_blocks and lstrip_blocks
// are on and one trailing newline of the source is dropped. Linear in the source.
// Language: https://jinja.palletsprojects.com/en/stable/templates/
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/jinja/ast.h"

namespace quire::jinja {

enum class TokenType {
  kData,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInt,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type;
  int line;
  std::string text;  // data, name, decoded string or operator
  Int integer = 0;
  double number = 0;
};

// "line 12: what is wrong", as an invalid_argument Status.
Status syntax_error(int line, const std::string& what);

// Tokens of `source`, ending with kEnd.
Result<std::vector<Token>> tokenize(std::string_view source);

// Decodes the escapes of a string literal's inside as Python's unicode-escape does.
Result<std::string> unescape(std::string_view literal, int line);

}  // namespace quire::jinja
