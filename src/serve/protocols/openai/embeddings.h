// POST /v1/embeddings: the final hidden states of each input, pooled and scaled as the model says.
//
// Fields beyond OpenAI's: normalize (false: as the model gives it), truncate_prompt_tokens (keep
// the last so many tokens; -1: max_model_len), add_special_tokens, priority, request_id. A text is
// all text: what is spelled like a control token in it is none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/http/router.h"
#include "serve/protocols/openai/api_error.h"
#include "serve/protocols/openai/text_limits.h"
#include "serve/service.h"

namespace quire {

struct EmbeddingJob {
  std::vector<std::vector<TokenId>> inputs;
  std::int64_t dimensions = 0;  // the first so many values of each vector, 1 to hidden_size
  bool normalize = true;
  bool base64 = false;  // of little-endian float32; else a list of numbers
  std::int32_t priority = 0;
  std::string cache_salt = {};
  std::string user = {};
  std::string request_id;
  std::string model;              // as the request names it
  ServedModel* served = nullptr;  // the model that it means
  std::string ignored_fields;     // for the header; may be empty
};

// A request's body to what the engine is given. For fuzzing and tests; the route does just that.
// `request_id`: where the body gives none.
std::variant<EmbeddingJob, ApiError> parse_embedding_request(std::string_view body,
                                                             std::string_view request_id,
                                                             const Service& service,
                                                             ClientGone gone = {});

std::vector<Route> embedding_routes(Service& service);

}  // namespace quire
