// --tool-call-parser and --reasoning-parser.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "text/dialects/dialect.h"

namespace quire {

void add_dialect_flags(CLI::App& app, DialectChoice& choice, const std::string& group);

}  // namespace quire
