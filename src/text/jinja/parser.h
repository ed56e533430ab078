// Recursive-descent parser of chat templates, linear in the tokens and bounded in depth.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/jinja/ast.h"

namespace quire::jinja {

// Nesting of blocks and of expressions beyond this is refused. Published templates stay below 20.
inline constexpr int kMaxParseDepth = 100;

// Parses a template. Errors are "line 12: what is wrong"; a statement of Jinja that chat templates
// do not need (include, extends, ...) is refused by name with kUnimplemented.
Result<Block> parse_template(std::string_view source);

}  // namespace quire::jinja
