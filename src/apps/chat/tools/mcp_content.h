// The result of a tool of the Model Context Protocol, as the text that a model is told.
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"

namespace quire {

// The text parts of a result's `content`, a line each; `structuredContent` where there is no text.
// What is no text (pictures, sounds, other files) is named. kUnavailable with the text where the
// tool says that it has failed; kUnimplemented where it asks for input, or the result has neither.
Result<std::string> mcp_result_text(const json::value& result);

}  // namespace quire
