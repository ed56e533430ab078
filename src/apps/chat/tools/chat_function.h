// A function that a model may call in a chat: how it is declared, and how it runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace quire {

struct FunctionLimits {
  std::chrono::milliseconds timeout{60'000};  // --tool-timeout
  std::size_t max_output_bytes = 64 << 10;    // --max-tool-output
};

struct ChatFunction {
  std::string name;
  // As a request declares it: {"name", "description", "parameters"}, and "strict".
  json::object declaration;
  // What runs, for the person who is asked: "./weather.sh", "the MCP server `npx x`".
  std::string runs;
  // Its result, as text or the text of a JSON value, UTF-8. An error is what the model is told
  // instead; kCancelled where `stop` ended it. At most FunctionLimits::max_output_bytes.
  std::function<Result<std::string>(const json::object& arguments, const std::stop_token& stop)>
      run;
};

// What there is of a function's result where it has more than `limits` allow.
Status too_much_output(const FunctionLimits& limits);
// It took longer than `limits` allow.
Status took_too_long(const FunctionLimits& limits);
// Ctrl-C.
Status stopped_by_user();

}  // namespace quire
