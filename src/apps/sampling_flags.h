// A flag for each sampling parameter, from the table of their fields.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "base/json.h"

namespace quire {

// Adds a flag for every field but the seed (an engine flag); parsing writes into `given`, which
// read_sampling_fields takes.
void add_sampling_flags(CLI::App& app, json::object& given, const std::string& group);

}  // namespace quire
