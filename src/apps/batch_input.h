// One line of `quire generate --input`: a JSON object with a prompt and how to continue it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/jsonl.h"
#include "base/json.h"
#include "core/sampling_params.h"
#include "serve/protocols/queue_fields.h"

namespace quire {

// Exactly one of `prompt` (text), `messages` (a chat) or `prompt_token_ids`.
using BatchPrompt = std::variant<std::string, json::array, std::vector<TokenId>>;

struct BatchRequest {
  json::value id;  // a string or an integer; the line's number if it gave none
  BatchPrompt prompt;
  SamplingParams params;  // the defaults with the line's own values
  QueueFields queue;
  bool max_tokens_given = false;
};

using BatchLine = std::variant<BatchRequest, LineError>;

// Reads one line. Errors (kInvalidArgument): not an object, no prompt or several, a value of
// another type, a field that is not known.
BatchLine parse_batch_line(std::string_view line, std::int64_t line_number,
                           const SamplingParams& defaults);

// What a line may contain, as JSON Schema (draft 2020-12).
json::object batch_line_schema();

}  // namespace quire
