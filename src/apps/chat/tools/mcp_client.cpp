#include "apps/chat/tools/mcp_client.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/chat/tools/mcp_content.h"
#include "base/printable.h"

namespace quire {
namespace {

// The latest first.
constexpr std::array<std::string_view, 4> kVersions = {"2025-11-25", "2025-06-18", "2025-03-26",
                                                       "2024-11-05"};
constexpr std::string_view kModernVersion = "2026-07-28";
constexpr std::int64_t kMethodNotFound = -32601;
constexpr int kMaxMessageDepth = 256;

json::object client_info() { return {{"name", "quire"}, {"version", QUIRE_VERSION}}; }

}  // namespace

std::string McpClient::who() const { return fmt::format("the MCP server `{}`", command_); }

Status McpClient::broken(std::string_view what) {
  std::string text = fmt::format("{}: {}", who(), what);
  if (process_ != nullptr && !process_->errors().empty()) {
    text += fmt::format("; its last words: {}", printable(process_->errors(), 1000));
  }
  process_ = nullptr;
  ended_ = Status::unavailable(text, "start the chat again to use it");
  return ended_;
}

Result<std::shared_ptr<McpClient>> McpClient::start(const std::string& command,
                                                    const FunctionLimits& limits) {
  std::shared_ptr<McpClient> client(new McpClient(command, limits));
  QUIRE_ASSIGN_OR_RETURN(client->process_, ChildProcess::start({"/bin/sh", "-c", command}));
  QUIRE_RETURN_IF_ERROR(client->agree());
  return client;
}

Status McpClient::agree() {
  json::object params = {{"protocolVersion", kVersions[0]},
                         {"capabilities", json::object()},
                         {"clientInfo", client_info()}};
  QUIRE_ASSIGN_OR_RETURN(Reply reply, request("initialize", std::move(params), {}));
  if (reply.error) return agree_on_modern();
  const std::string_view version = mcp_text(reply.result, "protocolVersion");
  if (std::ranges::find(kVersions, version) == kVersions.end()) {
    return Status::unimplemented(
        fmt::format("{} speaks version \"{}\" of the protocol", who(), printable(version, 40)),
        fmt::format("known are {}", fmt::join(kVersions, ", ")));
  }
  const json::value* capabilities = mcp_member(reply.result, "capabilities");
  if (capabilities == nullptr || mcp_member(*capabilities, "tools") == nullptr) {
    return Status::invalid_argument(fmt::format("{} has no tools", who()));
  }
  send({{"method", "notifications/initialized"}});
  return {};
}

// A server that has left `initialize` behind says which versions it has.
Status McpClient::agree_on_modern() {
  modern_ = true;
  QUIRE_ASSIGN_OR_RETURN(Reply reply, request("server/discover", {}, {}));
  if (reply.error) {
    return Status::unimplemented(
        fmt::format("{} refuses to begin: {}", who(), reply.error->message()),
        fmt::format("known versions are {} and {}", kModernVersion, fmt::join(kVersions, ", ")));
  }
  return {};
}

Result<json::array> McpClient::list() {
  json::array tools;
  std::optional<std::string> cursor;
  for (std::size_t page = 0; page < kMaxPages; ++page) {
    json::object params;
    if (cursor) params["cursor"] = *cursor;
    QUIRE_ASSIGN_OR_RETURN(Reply reply, request("tools/list", std::move(params), {}));
    if (reply.error) return *reply.error;
    const json::value* found = mcp_member(reply.result, "tools");
    if (found == nullptr || !found->is_array()) return broken("it lists no tools");
    for (const json::value& tool : found->get_array()) tools.push_back(tool);
    if (tools.size() > kMaxTools) {
      return Status::resource_exhausted(fmt::format("{} has more than {} tools", who(), kMaxTools));
    }
    const json::value* next = mcp_member(reply.result, "nextCursor");
    if (next == nullptr || !next->is_string()) return tools;
    cursor = std::string(next->get_string());
  }
  return Status::resource_exhausted(
      fmt::format("{} has more than {} pages of tools", who(), kMaxPages));
}

Result<std::vector<ChatFunction>> McpClient::functions(const std::shared_ptr<McpClient>& client) {
  QUIRE_ASSIGN_OR_RETURN(const json::array tools, client->list());
  std::vector<ChatFunction> functions;
  for (const json::value& tool : tools) {
    ChatFunction function;
    function.name = mcp_text(tool, "name");
    const json::value* schema = mcp_member(tool, "inputSchema");
    if (function.name.empty() || schema == nullptr || !schema->is_object()) {
      return Status::invalid_argument(
          fmt::format("{} has a tool without a name or an inputSchema: {}", client->who(),
                      printable(json::serialize(tool), 200)));
    }
    function.declaration = {{"name", function.name},
                            {"description", mcp_text(tool, "description")},
                            {"parameters", *schema}};
    function.runs = client->who();
    function.run = [client, name = function.name](const json::object& arguments,
                                                  const std::stop_token& stop) {
      return client->call(name, arguments, stop);
    };
    functions.push_back(std::move(function));
  }
  return functions;
}

Result<std::string> McpClient::call(const std::string& name, const json::object& arguments,
                                    const std::stop_token& stop) {
  QUIRE_ASSIGN_OR_RETURN(Reply reply,
                         request("tools/call", {{"name", name}, {"arguments", arguments}}, stop));
  if (reply.error) return *reply.error;
  QUIRE_ASSIGN_OR_RETURN(std::string text, mcp_result_text(reply.result));
  if (text.size() > limits_.max_output_bytes) return too_much_output(limits_);
  return text;
}

void McpClient::send(json::object message) {
  message["jsonrpc"] = "2.0";
  process_->write(json::serialize(message) + "\n");
}

Result<McpClient::Reply> McpClient::request(std::string_view method, json::object params,
                                            const std::stop_token& stop) {
  if (process_ == nullptr) return ended_;
  const std::int64_t id = ++last_id_;
  if (modern_) {
    params["_meta"] = {{"io.modelcontextprotocol/protocolVersion", kModernVersion},
                       {"io.modelcontextprotocol/clientInfo", client_info()},
                       {"io.modelcontextprotocol/clientCapabilities", json::object()}};
  }
  send({{"id", id}, {"method", method}, {"params", std::move(params)}});
  const auto deadline = ChildProcess::Clock::now() + limits_.timeout;
  while (true) {
    auto line = read_line(deadline, stop);
    if (!line.ok()) {
      if (process_ != nullptr && method == "tools/call") {
        send({{"method", "notifications/cancelled"},
              {"params", {{"requestId", id}, {"reason", line.status().message()}}}});
      }
      return line.status();
    }
    QUIRE_ASSIGN_OR_RETURN(std::optional<Reply> reply, read_message(*line, id));
    if (reply) return *std::move(reply);
  }
}

Result<std::string> McpClient::read_line(ChildProcess::Clock::time_point deadline,
                                         const std::stop_token& stop) {
  std::size_t searched = 0;
  while (true) {
    std::string& output = process_->output();
    const std::size_t end = output.find('\n', searched);
    if (end != std::string::npos) {
      std::string line = output.substr(0, end);
      output.erase(0, end + 1);
      return line;
    }
    if (output.size() > kMaxLineBytes) {
      return broken(fmt::format("a message has more than {} bytes", kMaxLineBytes));
    }
    searched = output.size();
    switch (process_->wait(deadline, stop)) {
      case ChildProcess::Event::kOutput:
        break;
      case ChildProcess::Event::kEnded:
        return broken(fmt::format("it has ended with {}", process_->ending()));
      case ChildProcess::Event::kTimedOut:
        return Status::unavailable(fmt::format("{}: {}", who(), took_too_long(limits_).message()),
                                   took_too_long(limits_).remedy());
      case ChildProcess::Event::kStopped:
        return stopped_by_user();
    }
  }
}

// The reply to request `id`, if that is what the line is.
Result<std::optional<McpClient::Reply>> McpClient::read_message(const std::string& line,
                                                                std::int64_t id) {
  const std::optional<Reply> other;
  if (line.find_first_not_of(" \t\r") == std::string::npos) return other;
  const auto message = parse_json(line, "message", kMaxMessageDepth);
  if (!message.ok() || mcp_text(*message, "jsonrpc") != "2.0") {
    return broken(fmt::format("what it writes is no JSON-RPC: {}", printable(line)));
  }
  const json::object& object = message->get_object();
  if (object.contains("method")) {
    answer(object);
    return other;
  }
  const json::value* of = object.if_contains("id");
  if (of == nullptr || *of != id) return other;  // of one that was given up
  Reply reply;
  if (const json::value* error = object.if_contains("error")) {
    const json::value* code = mcp_member(*error, "code");
    const std::int64_t number = code != nullptr && code->is_int64() ? code->get_int64() : 0;
    reply.error = Status::unavailable(fmt::format("{} answered with error {}: {}", who(), number,
                                                  printable(mcp_text(*error, "message"), 2000)));
    return std::optional(std::move(reply));
  }
  const json::value* result = object.if_contains("result");
  if (result == nullptr) {
    return broken(fmt::format("a reply has neither result nor error: {}", printable(line)));
  }
  reply.result = *result;
  return std::optional(std::move(reply));
}

// What a server may ask of any client is whether it is there.
void McpClient::answer(const json::object& request) {
  const json::value* id = request.if_contains("id");
  if (id == nullptr) return;  // a notification
  if (request.at("method") == "ping") return send({{"id", *id}, {"result", json::object()}});
  send({{"id", *id},
        {"error", {{"code", kMethodNotFound}, {"message", "this client offers no such method"}}}});
}

}  // namespace quire
