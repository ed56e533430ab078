// StructuredOutputsParams as JSON, by vLLM's names of its fields: in requests, on the command line,
// and within the form of an answer.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "core/structured_outputs.h"

namespace quire {

// One of the constraints (`json`, `regex`, `choice`, `grammar`, `structural_tag`), called `key`
// there, into `to`. kInvalidArgument, beginning with `field`, for a value of another type.
Status read_constraint(std::string_view key, const json::value& value, std::string_view field,
                       StructuredOutputsParams& to);

// vLLM's object; `field` is what the request calls it. kInvalidArgument, beginning with `field`,
// for a value of another type, an unknown key, and what StructuredOutputsParams::validate refuses.
Result<StructuredOutputsParams> read_structured_outputs(const json::value& value,
                                                        std::string_view field);

// What read_structured_outputs makes the same of, `field` apart.
json::object show_structured_outputs(const StructuredOutputsParams& params);

}  // namespace quire
