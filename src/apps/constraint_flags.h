// Flags for what the text must be, as people write it: --json-schema, --json-object, --regex,
// --choice, --grammar.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "base/json.h"

namespace quire {

// Adds the flags; parsing writes into given["structured_outputs"], which read_sampling_fields
// reads.
void add_constraint_flags(CLI::App& app, json::object& given, const std::string& group);

}  // namespace quire
