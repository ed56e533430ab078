// The ways in which requests say what their text must be besides vLLM's structured_outputs
// (core/structured_outputs_json.h): its older guided_ fields, OpenAI's response_format and
// text.format, llama.cpp's and SGLang's fields. All of them are one StructuredOutputsParams.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "engine/api.h"

namespace quire {

using SharedConstraint = std::shared_ptr<const StructuredOutputsParams>;

// OpenAI's `response_format` and, `flat`, Responses' `text.format`, whose schema is no object of
// its own. Null for the type "text". kInvalidArgument as read_structured_outputs.
Result<SharedConstraint> read_response_format(const json::value& value, std::string_view field,
                                              bool flat);

// The names of the fields below besides response_format, in the order of tables.
std::span<const std::string_view> constraint_field_names();

// Takes response_format, guided_json, guided_regex, guided_choice, guided_grammar,
// guided_whitespace_pattern, json_schema, regex, grammar, ebnf and structural_tag into
// `params.structured_outputs`. kInvalidArgument where two constraints are given, naming both.
Status read_constraint_fields(const JsonReader& fields, SamplingParams& params);

// What `structured_outputs` may be, as JSON Schema.
json::object structured_outputs_schema();
// The same of the fields that read_constraint_fields reads, by their names.
json::object constraint_properties();

}  // namespace quire
