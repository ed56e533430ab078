#include "apps/chat/tools/tool_flags.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "apps/chat/tools/command_functions.h"
#include "apps/chat/tools/mcp_client.h"
#include "apps/count_option.h"
#include "apps/flag_values.h"
#include "base/printable.h"

namespace quire {
namespace {

constexpr double kMaxTimeoutSeconds = 86'400;

bool is_mode(const std::string& choice) {
  return choice == "auto" || choice == "required" || choice == "none";
}

Status check_tool_flags(const ToolFlags& flags, bool asks) {
  const bool any = !flags.files.empty() || !flags.mcp_commands.empty();
  if (!any && (flags.yes || flags.choice != "auto")) {
    return Status::invalid_argument(
        "--yes and --tool-choice are about functions, and there are none",
        "give --tools or --mcp as well");
  }
  if (any && !asks && !flags.yes) {
    return Status::invalid_argument(
        "each call of a function needs confirmation, and nobody can be asked: standard input or "
        "output is not a terminal",
        "--yes runs every call unasked");
  }
  return {};
}

}  // namespace

ToolRounds ToolFlags::rounds() const {
  if (is_mode(choice)) return {.first_choice = json::value(choice), .most = max_rounds};
  return {.first_choice = {{"type", "function"}, {"function", {{"name", choice}}}},
          .most = max_rounds};
}

void add_tool_flags(CLI::App& app, ToolFlags& flags, const std::string& group) {
  app.add_option("--tools", flags.files,
                 "Functions that the model may call: a JSON file with names, descriptions, "
                 "parameters and commands (docs/tools.md); may be given several times")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--mcp", flags.mcp_commands,
                 "Tools of a Model Context Protocol server that this command starts; may be given "
                 "several times")
      ->type_name("COMMAND")
      ->allow_extra_args(false)
      ->group(group);
  app.add_flag("--yes", flags.yes, "Run every call without asking")->group(group);
  app.add_option("--tool-choice", flags.choice,
                 "For the first answer to each question: auto, required (at least one call), none, "
                 "or the name of a function that must be called")
      ->type_name("CHOICE")
      ->capture_default_str()
      ->group(group);
  app.add_option_function<double>(
         "--tool-timeout",
         [&flags](double seconds) {
           flags.limits.timeout =
               std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
         },
         "Maximum duration of a call, and of a server's start")
      ->check(number(0.001, kMaxTimeoutSeconds))
      ->type_name("SECONDS")
      ->default_str("60")
      ->group(group);
  add_count(app, "--max-tool-output", flags.limits.max_output_bytes,
            "Maximum bytes of a call's result; a call with more fails", 1, std::int64_t{16} << 20)
      ->group(group);
  add_count(app, "--max-tool-rounds", flags.max_rounds,
            "Maximum number of answers with calls to one question; the next answer must have none",
            1, 1000)
      ->group(group);
}

Result<std::vector<ChatFunction>> chat_functions(const ToolFlags& flags, bool asks) {
  QUIRE_RETURN_IF_ERROR(check_tool_flags(flags, asks));
  std::vector<ChatFunction> functions;
  const auto take = [&functions](std::vector<ChatFunction> more) {
    std::ranges::move(more, std::back_inserter(functions));
  };
  for (const std::string& file : flags.files) {
    QUIRE_ASSIGN_OR_RETURN(auto more, read_command_functions(file, flags.limits));
    take(std::move(more));
  }
  for (const std::string& command : flags.mcp_commands) {
    QUIRE_ASSIGN_OR_RETURN(const auto client, McpClient::start(command, flags.limits));
    QUIRE_ASSIGN_OR_RETURN(auto more, McpClient::functions(client));
    take(std::move(more));
  }
  QUIRE_RETURN_IF_ERROR(check_functions(functions));
  const bool named = std::ranges::any_of(
      functions, [&flags](const ChatFunction& each) { return each.name == flags.choice; });
  if (!is_mode(flags.choice) && !named) {
    return Status::invalid_argument(
        fmt::format("--tool-choice: there is no function {}", printable(flags.choice)),
        "expected auto, required, none or the name of one");
  }
  return functions;
}

}  // namespace quire
