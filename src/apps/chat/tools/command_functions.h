// Functions that are commands, from a file:
//
//   [{"name": "weather", "description": "The weather of a city",
//     "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
//     "command": ["./weather.sh", "--celsius"]}]
//
// A command gets the arguments of a call as one line of JSON on its standard input, and what it
// writes to its standard output, text or JSON, is the result. One that ends otherwise than by exit
// status 0 has failed, and the end of its standard error says why.
#pragma once

#include <string>
#include <vector>

#include "apps/chat/tools/chat_function.h"
#include "base/status.h"

namespace quire {

// Reads a file. A command with a slash in it is one relative to the file's folder, others are
// looked up in PATH. Errors name the file and the entry: kNotFound (no such file or program),
// kInvalidArgument (no JSON, a field that is missing, of another type or unknown, parameters that
// are no JSON Schema).
Result<std::vector<ChatFunction>> read_command_functions(const std::string& path,
                                                         const FunctionLimits& limits);

}  // namespace quire
