// OpenAI's Responses API, for text: POST /v1/responses, and of the responses that are stored GET,
// DELETE, /input_items and /cancel.
//
// `input_items` are those of the response's own request; earlier ones are those of the response
// that previous_response_id names. A response whose generation failed is not stored.
#pragma once

#include <memory>
#include <vector>

#include "serve/http/router.h"
#include "serve/protocols/openai/response_store.h"
#include "serve/service.h"

namespace quire {

std::vector<Route> response_routes(
    Service& service, std::shared_ptr<ResponseStore> store = std::make_shared<ResponseStore>());

}  // namespace quire
