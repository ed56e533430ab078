// The sampling parameters as users write them, in JSON: made from core's table of them, and what
// the fields of requests and batch lines, the flags of `quire generate`, the page and the printed
// schema are made from.
#pragma once

#include <span>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "engine/api.h"

namespace quire {

enum class SamplingFieldKind {
  kInteger,
  kNumber,
  kBoolean,
  kStrings,            // a string or a list of strings
  kTokenIds,           // a list of token ids
  kBiases,             // an object from token ids, written as strings, to numbers
  kStructuredOutputs,  // StructuredOutputsParams' object
  kEarlyStopping,      // true, false or "never"
};

struct SamplingField {
  std::string_view name;
  SamplingFieldKind kind;
  std::string_view description;
  json::object rules;  // default, minimum, exclusiveMinimum, maximum: JSON Schema's words
  // Sets the parameter where `object` has the field.
  Status (*read)(const JsonReader& object, SamplingParams& params);
  json::value (*show)(const SamplingParams& params);  // null where it is not set
};

// In the order of vLLM's SamplingParams, those that users set.
std::span<const SamplingField> sampling_fields();

// Of a beam search the penalties that `object` does not give become none: those that a model
// recommends are for tokens that are drawn, and a search has no part for them.
void drop_default_penalties(const JsonReader& object, SamplingParams& params);

// Sets what `object` gives, and calls the above; a field that is absent or null changes nothing,
// keys that are no sampling fields are left alone. kInvalidArgument for a value of another type;
// ranges are for SamplingParams::validate.
Status read_sampling_fields(const JsonReader& object, SamplingParams& params);

// The properties of the fields, as JSON Schema (draft 2020-12).
json::object sampling_properties();

}  // namespace quire
