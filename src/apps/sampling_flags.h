// A flag for each sampling parameter, from the table of their fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "base/json.h"
#include "base/status.h"

namespace quire {

// What a person writes for the field `name` ("0.7", "[1, 2]", "true", a stop text) as the JSON
// value that the field's reader reads. kInvalidArgument for an unknown name, naming the nearest, or
// a text that is no such value.
Result<json::value> parse_sampling_value(const std::string& name, const std::string& text);

// Whether these fields can suit some model: ranges, combinations, and whether a schema, pattern
// or grammar is one, before a model is loaded.
// `max_logprobs`: the most alternatives that may be asked for, where that is known.
Status check_sampling_fields(const json::object& given,
                             std::optional<std::int64_t> max_logprobs = {});

// Adds a flag for every field but the seed (an engine flag); parsing writes into `given`, which
// read_sampling_fields reads.
void add_sampling_flags(CLI::App& app, json::object& given, const std::string& group);

}  // namespace quire
