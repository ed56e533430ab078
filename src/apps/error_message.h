// What a server says of an error: no two kinds of servers say it in the same place.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"

namespace quire {

// The message in {"error": {"message"}}, {"error": "..."}, {"detail": "..."}, {"message"}.
std::optional<std::string> error_message(const json::value& body);

}  // namespace quire
