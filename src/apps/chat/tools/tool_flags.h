// The flags of `quire chat` that are about functions, and the functions that they name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/chat/session.h"
#include "apps/chat/tools/chat_function.h"
#include "base/status.h"

namespace quire {

struct ToolFlags {
  std::vector<std::string> files;
  std::vector<std::string> mcp_commands;
  std::string choice = "auto";
  bool yes = false;
  FunctionLimits limits;
  std::int64_t max_rounds = 8;

  ToolRounds rounds() const;
};

void add_tool_flags(CLI::App& app, ToolFlags& flags, const std::string& group);

// Reads the files and starts the servers; none where no flag names any. `asks`: a person is there
// to agree to calls. Errors of read_command_functions() and McpClient; kInvalidArgument for what
// contradicts itself.
Result<std::vector<ChatFunction>> chat_functions(const ToolFlags& flags, bool asks);

}  // namespace quire
