// Errors that the server itself gives, before any protocol sees the request. Their body has the
// shape that OpenAI's clients expect.
#pragma once

#include <string_view>

#include "serve/http/message.h"

namespace quire {

// `param` is what of the request is wrong, where it is one thing.
HttpResponse http_error(int status, std::string_view message, std::string_view code = {},
                        std::string_view param = {});

// 503 for now: clients may try again in a second.
HttpResponse busy(std::string_view message);

}  // namespace quire
