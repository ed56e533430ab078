// Requests of llama.cpp's server as the completion requests that they stand for.
#pragma once

#include <string_view>
#include <variant>

#include "base/json.h"
#include "base/status.h"
#include "serve/protocols/openai/generation_answer.h"
#include "serve/protocols/openai/request_body.h"
#include "serve/protocols/openai/text_limits.h"

namespace quire {

// The completion request, but for the fields that both have under one name.
using LlamaTranslation = Result<json::object> (*)(const JsonReader& fields, const Engine& engine);

Result<json::object> completion_of_llama(const JsonReader& fields, const Engine& engine);
// Between input_prefix (and prompt) and input_suffix. kUnimplemented where the model has no tokens
// for filling in.
Result<json::object> completion_of_infill(const JsonReader& fields, const Engine& engine);

const FieldTable& llama_completion_fields();
const FieldTable& apply_template_fields();

std::variant<GenerationJob, ApiError> parse_llama_request(std::string_view body,
                                                          const Service& service,
                                                          LlamaTranslation translate,
                                                          ClientGone gone = {});

}  // namespace quire
