// Errors in OpenAI's shape: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "serve/http/message.h"

namespace quire {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::optional<std::string> param;  // the field that is wrong
  std::optional<std::string> code;   // "unsupported_parameter", "model_not_found", ...
  std::vector<HttpHeader> headers;   // Retry-After
};

// 400 for what the request got wrong (kUnimplemented: a known field that is not supported), 404 not
// found, 429 a full queue, 503 draining or a dead engine, 500 otherwise, without particulars: no
// path, address or secret of this machine is in a message.
ApiError to_api_error(const Status& status, std::optional<std::string> param = {});

json::object error_body(const ApiError& error);
HttpResponse error_response(const ApiError& error);

}  // namespace quire
