// Pinned prefixes: prompts whose KV blocks stay in the prefix cache by a name, for a while.
//
//   POST /v1/prefixes            {"name": "support", "messages": [...], "ttl_seconds": 3600}
//   GET /v1/prefixes             those of the caller's key
//   DELETE /v1/prefixes/{name}
//
// `messages` become the beginning of later chats: the model's template writes them without what
// asks for an answer. `prompt`, a text or token ids, is the beginning of later completions. Names
// are each key's own, and who finds what is pinned is as with all of the prefix cache.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/http/router.h"
#include "serve/protocols/openai/api_error.h"
#include "serve/protocols/openai/text_limits.h"
#include "serve/service.h"

namespace quire {

struct PrefixJob {
  GenerateRequest request;        // with a pin
  std::string model;              // as the request names it
  ServedModel* served = nullptr;  // the model that it means
  std::string ignored_fields;     // for the header; may be empty
};

// A request's body to what the engine is given, for a caller (HttpRequest::caller). For fuzzing and
// tests; the route does just that.
std::variant<PrefixJob, ApiError> parse_prefix_request(std::string_view body,
                                                       const std::string& caller,
                                                       const Service& service,
                                                       ClientGone gone = {});

std::vector<Route> prefix_routes(Service& service);

}  // namespace quire
