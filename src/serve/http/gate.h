// What is decided about a request when its header has come, before its body is read: which route
// accepts it, or the answer that refuses it.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "serve/http/access.h"
#include "serve/http/router.h"

namespace quire {

struct Admission {
  const Route* route = nullptr;          // set unless `refusal` is
  std::optional<HttpResponse> refusal;   // also the answer to a CORS preflight
  std::vector<HttpHeader> cors_headers;  // go with every answer
  std::vector<std::pair<std::string, std::string>> path_params;
  std::string caller;  // AccessPolicy::caller_of()
};

// Checks, in this order: host, origin, path and method, key, kind and coding of content. `has_body`
// says whether the request announces one.
Admission admit(const HttpRequest& request, bool has_body, const Router& router,
                const AccessPolicy& access);

// Whether `id` may go into logs, headers and answers: 1 to 128 of [A-Za-z0-9._:-].
bool valid_request_id(std::string_view id);

}  // namespace quire
