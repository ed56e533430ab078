// A request to POST /v1/responses, checked: fields that are known and have no effect here are
// accepted in the form that has none, and refused by name in every other.
//
// Besides OpenAI's, vLLM's sampling fields work (top_k, min_p, seed, stop, ...), priority and
// request_id.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "serve/generation/answer_reader.h"
#include "serve/protocols/openai/api_error.h"
#include "serve/protocols/openai/response_store.h"
#include "serve/protocols/openai/text_limits.h"
#include "serve/service.h"

namespace quire {

struct ResponseJob {
  std::string id;  // "resp_..."
  std::vector<TokenId> prompt_token_ids;
  SamplingParams params;
  AnswerParsing parsing;  // of the output
  std::int32_t priority = 0;
  std::string cache_salt;
  std::string user;
  std::optional<std::int32_t> drafts;  // GenerateRequest::drafts
  bool stream = false;
  bool store = true;
  bool background = false;        // it runs on without its client
  json::object echo;              // the fields of the Response object that the request settles
  json::array input_items;        // for input_items
  json::array messages;           // the conversation so far, without instructions
  std::string log_id;             // under which the request is logged: request_id, else `id`
  std::string ignored_fields;     // for the header; may be empty
  ServedModel* served = nullptr;  // the model that is meant
};

// `store` has the response that previous_response_id names. For fuzzing and tests; the route does
// just that.
std::variant<ResponseJob, ApiError> parse_response_request(std::string_view body,
                                                           const Service& service,
                                                           ResponseStore& store,
                                                           ClientGone gone = {});

}  // namespace quire
