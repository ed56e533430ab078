// The answer to POST /v1/responses: one message of text, whole or as a stream of events.
#pragma once

#include <memory>

#include "serve/http/exchange.h"
#include "serve/protocols/openai/response_background.h"
#include "serve/protocols/openai/response_request.h"
#include "serve/protocols/openai/response_store.h"

namespace quire {

// Submits the job and answers on `exchange`, now and as its output comes. Stores the response when
// it is complete, where the job says so. One in the background is in `live` until then.
void answer_response(std::shared_ptr<Exchange> exchange, std::shared_ptr<ResponseStore> store,
                     std::shared_ptr<BackgroundResponses> live, ResponseJob job);

}  // namespace quire
