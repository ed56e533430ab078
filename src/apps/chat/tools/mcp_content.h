// What messages of the Model Context Protocol say; the result of a tool as the text that a model
// is told.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace quire {

// Servers are foreign: what is not there, or of another type, is null or an empty text.
const json::value* mcp_member(const json::value& value, std::string_view key);
std::string_view mcp_text(const json::value& value, std::string_view key);

// The text parts of a result's `content`, a line each; `structuredContent` where there is no text.
// What is no text (pictures, sounds, other files) is named. kUnavailable with the text where the
// tool says that it has failed; kUnimplemented where it asks for input, or the result has neither.
Result<std::string> mcp_result_text(const json::value& result);

}  // namespace quire
