// What the routes of files and batches share: errors of the storage, and the query of a list.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "serve/http/message.h"
#include "serve/protocols/openai/api_error.h"

namespace quire {

// An error of FileStore or BatchStore: 404 not found, 409 in use or ended, 507 no room, 500 where
// the database cannot be used (logged, without particulars for the client), else 400.
// `field`: of the request, that a 400 or 404 is about; empty where the path names it.
ApiError storage_error(const Status& status, std::string_view field = {});

ApiError bad_field(std::string_view field, std::string message);

// `limit` of a list. kInvalidArgument where it is no number or beyond 1..most.
Result<std::int64_t> read_limit(const HttpRequest& request, std::int64_t most,
                                std::int64_t default_value);

}  // namespace quire
