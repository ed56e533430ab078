// What the text of an output must be, as its request writes it. Nothing here reads the text: that
// is text/grammar's, before the engine hears of the request.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace quire {

// Exactly one of the constraints, and how a schema's text may look. Names are vLLM's
// StructuredOutputsParams.
struct StructuredOutputsParams {
  std::optional<std::string> json;     // text that is valid under this JSON Schema
  std::optional<std::string> regex;    // text that all of this matches
  std::vector<std::string> choice;     // one of these texts
  std::optional<std::string> grammar;  // text of this grammar: GBNF, EBNF or Lark's
  bool json_object = false;            // any JSON object
  // Text in which calls and the like are constrained where they begin: a JSON object.
  std::optional<std::string> structural_tag;
  // Of `json` and `json_object`.
  bool disable_any_whitespace = false;            // none between a JSON text's parts
  bool disable_additional_properties = false;     // objects have the properties that a schema names
  std::optional<std::string> whitespace_pattern;  // a regex: what may stand between the parts
  // What the request calls the constraint, which errors begin with. Says nothing of the text, and
  // is in no event log.
  std::string field = "structured_outputs";
  // The prompt says it too (schema_in_prompt); for reports, as `field` is for errors.
  bool told_in_prompt = false;

  static constexpr std::size_t kMaxBytes = std::size_t{2} << 20;  // of all texts together
  static constexpr std::size_t kMaxChoices = 65536;

  // kInvalidArgument, naming `field`, for none or several constraints, an empty one, an option that
  // the constraint does not have, and texts beyond the limits.
  Status validate() const;
  std::size_t num_bytes() const;  // of the texts

  bool operator==(const StructuredOutputsParams&) const = default;
};

}  // namespace quire
