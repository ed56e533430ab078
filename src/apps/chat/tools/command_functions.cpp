#include "apps/chat/tools/command_functions.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

#include <fmt/format.h>

#include "apps/chat/tools/child_process.h"
#include "base/file.h"
#include "base/printable.h"
#include "text/grammar/json_schema.h"
#include "text/utf8.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20;
constexpr int kMaxFileDepth = 256;
constexpr std::array<std::string_view, 5> kFields = {"name", "description", "parameters", "strict",
                                                     "command"};

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

// The program's path; empty where there is none.
std::string find_program(const std::string& name, const fs::path& folder) {
  if (name.find('/') != std::string::npos) {
    const fs::path path = folder / name;
    return is_program(path) ? path.string() : "";
  }
  const char* variable = std::getenv("PATH");
  std::string_view folders = variable != nullptr ? variable : "/usr/bin:/bin";
  while (!folders.empty()) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    const fs::path path = fs::path(folders.substr(0, end)) / name;
    if (is_program(path)) return path.string();
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  return "";
}

Result<std::vector<std::string>> read_command(const JsonReader& entry, const fs::path& folder) {
  const json::value* value = entry.find("command");
  if (value == nullptr || !value->is_array() || value->get_array().empty()) {
    return Status::invalid_argument(
        fmt::format("{}: command: expected a list of a program and its arguments", entry.where()),
        R"(as in ["./weather.sh", "--celsius"], or ["sh", "-c", "..."] for a shell's command)");
  }
  std::vector<std::string> command;
  for (const json::value& word : value->get_array()) {
    if (!word.is_string() || word.get_string().find('\0') != json::string::npos) {
      return Status::invalid_argument(
          fmt::format("{}: command: expected texts, found {}", entry.where(),
                      word.is_string() ? "one with a zero byte" : json_kind_name(word)));
    }
    command.emplace_back(word.get_string());
  }
  std::string program = find_program(command[0], folder);
  if (program.empty()) {
    return Status::not_found(
        fmt::format("{}: command: there is no program {}", entry.where(), printable(command[0])),
        command[0].find('/') == std::string::npos
            ? "install it, or name a path; PATH was searched"
            : "the path is relative to the file's folder, and the program has to be executable");
  }
  command[0] = std::move(program);
  return command;
}

Status check_parameters(const JsonReader& entry, const json::value& parameters) {
  if (!parameters.is_object()) return entry.type_error("parameters", "a JSON Schema, an object");
  GrammarBudget budget{GrammarLimits()};
  const auto grammar = json_schema_grammar(parameters, JsonSchemaOptions(), budget);
  // A schema that no grammar can keep is a schema nonetheless.
  if (grammar.ok() || grammar.status().code() != StatusCode::kInvalidArgument) return {};
  return Status::invalid_argument(
      fmt::format("{}: parameters: {}", entry.where(), grammar.status().message()));
}

Result<std::string> run_command(const std::vector<std::string>& command,
                                const json::object& arguments, const FunctionLimits& limits,
                                const std::stop_token& stop) {
  QUIRE_ASSIGN_OR_RETURN(const auto child, ChildProcess::start(command));
  child->write(json::serialize(arguments) + "\n");
  child->end_input();
  const auto deadline = ChildProcess::Clock::now() + limits.timeout;
  auto event = ChildProcess::Event::kOutput;
  while (event == ChildProcess::Event::kOutput) {
    event = child->wait(deadline, stop);
    if (child->output().size() > limits.max_output_bytes) {
      child->kill();
      return too_much_output(limits);
    }
  }
  if (event != ChildProcess::Event::kEnded) {
    child->kill();
    return event == ChildProcess::Event::kStopped ? stopped_by_user() : took_too_long(limits);
  }
  std::string result = std::move(child->output());
  while (result.ends_with('\n') || result.ends_with('\r')) result.pop_back();
  if (!child->succeeded()) {
    const std::string_view said = child->errors().empty() ? result : child->errors();
    return Status::unavailable(fmt::format("the command ended with {}: {}", child->ending(),
                                           printable(said, ChildProcess::kMaxErrorBytes)));
  }
  if (!is_valid_utf8(result)) {
    return Status::invalid_argument("what the command wrote is no text: it is not UTF-8");
  }
  return result;
}

Result<ChatFunction> read_entry(const json::value& value, const std::string& where,
                                const fs::path& folder, const FunctionLimits& limits) {
  if (!value.is_object()) {
    return Status::invalid_argument(
        fmt::format("{}: expected an object, found {}", where, json_kind_name(value)));
  }
  const JsonReader entry(value.get_object(), where, StatusCode::kInvalidArgument);
  QUIRE_RETURN_IF_ERROR(check_fields(entry, kFields));
  ChatFunction function;
  QUIRE_ASSIGN_OR_RETURN(function.name, entry.get_string("name"));
  QUIRE_ASSIGN_OR_RETURN(const auto description, entry.find_string("description"));
  QUIRE_ASSIGN_OR_RETURN(const auto strict, entry.find_bool("strict"));
  function.declaration = {{"name", function.name}};
  if (description) function.declaration["description"] = *description;
  if (const json::value* parameters = entry.find("parameters")) {
    QUIRE_RETURN_IF_ERROR(check_parameters(entry, *parameters));
    function.declaration["parameters"] = *parameters;
  }
  if (strict) function.declaration["strict"] = *strict;
  QUIRE_ASSIGN_OR_RETURN(std::vector<std::string> command, read_command(entry, folder));
  for (const std::string& word : command) {
    function.runs += fmt::format("{}{}", function.runs.empty() ? "" : " ", word);
  }
  function.run = [command = std::move(command), limits](const json::object& arguments,
                                                        const std::stop_token& stop) {
    return run_command(command, arguments, limits, stop);
  };
  return function;
}

}  // namespace

Result<std::vector<ChatFunction>> read_command_functions(const std::string& path,
                                                         const FunctionLimits& limits) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  QUIRE_ASSIGN_OR_RETURN(const json::value list, parse_json(text, path, kMaxFileDepth));
  if (!list.is_array() || list.get_array().empty()) {
    return Status::invalid_argument(
        fmt::format("{}: expected a list of functions, found {}", path,
                    list.is_array() ? "an empty one" : json_kind_name(list)),
        R"(as in [{"name": ..., "description": ..., "parameters": {...}, "command": [...]}])");
  }
  const fs::path folder = fs::absolute(path).parent_path();
  std::vector<ChatFunction> functions;
  for (std::size_t i = 0; i < list.get_array().size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(
        ChatFunction function,
        read_entry(list.get_array()[i], fmt::format("{}: [{}]", path, i), folder, limits));
    functions.push_back(std::move(function));
  }
  return functions;
}

}  // namespace quire
