// What a response is asked with: `input`, a text or a list of messages, as items for clients and as
// messages for the chat template.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace quire {

struct ResponseInput {
  json::array items;  // as GET /v1/responses/{id}/input_items shows them, each with an id
  // {"role", "content"}; the role developer is system here. Calls and reasoning are with the
  // assistant's message, the output of a function is one of the role tool.
  json::array messages;
};

// Errors (kInvalidArgument, kUnimplemented for an image, a file, a call of another tool and the
// like) start with the name of the field: "input[0].content[1].type: ...".
Result<ResponseInput> read_response_input(const JsonReader& fields);

// {"type": "output_text", "text", "annotations", "logprobs": []}
json::object output_text_part(std::string_view text);

// A new id that nobody can guess: "msg_" and 48 hexadecimal digits.
std::string new_id(std::string_view prefix);

}  // namespace quire
