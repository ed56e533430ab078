// A server of the Model Context Protocol that runs as a child process: JSON-RPC 2.0, a message a
// line, over its standard input and output (https://modelcontextprotocol.io/specification, stdio
// transport and tools). Asks for the tools and calls them, and offers the server nothing.
//
// Versions up to 2025-11-25 begin with `initialize`; where a server refuses that, each request says
// by itself which version it is of, as 2026-07-28 has it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "apps/chat/tools/chat_function.h"
#include "apps/chat/tools/child_process.h"
#include "base/json.h"
#include "base/status.h"

namespace quire {

class McpClient {
 public:
  static constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;
  static constexpr std::size_t kMaxTools = 1024;
  static constexpr std::size_t kMaxPages = 64;

  // Starts the server by the shell, and agrees with it on a version. Errors name the command:
  // kUnavailable where it ends, says nothing in time or no JSON-RPC, kUnimplemented where no
  // version is both's.
  static Result<std::shared_ptr<McpClient>> start(const std::string& command,
                                                  const FunctionLimits& limits);

  // Its tools as functions, which keep the client. Errors as of start(), and kInvalidArgument for
  // tools that are none.
  static Result<std::vector<ChatFunction>> functions(const std::shared_ptr<McpClient>& client);

 private:
  struct Reply {
    json::value result;
    // What the server refused the request with.
    std::optional<Status> error;
  };

  McpClient(std::string command, const FunctionLimits& limits)
      : command_(std::move(command)), limits_(limits) {}

  Status agree();
  Status agree_on_modern();
  Result<json::array> list();
  Result<std::string> call(const std::string& name, const json::object& arguments,
                           const std::stop_token& stop);

  void send(json::object message);
  // A request and its reply; errors end the connection, but for those of time and of `stop`.
  Result<Reply> request(std::string_view method, json::object params, const std::stop_token& stop);
  Result<std::string> read_line(ChildProcess::Clock::time_point deadline,
                                const std::stop_token& stop);
  Result<std::optional<Reply>> read_message(const std::string& line, std::int64_t id);
  void answer(const json::object& request);
  Status broken(std::string_view what);
  std::string who() const;

  const std::string command_;
  const FunctionLimits limits_;
  std::unique_ptr<ChildProcess> process_;  // null: the connection has ended
  Status ended_;                           // why
  bool modern_ = false;
  std::int64_t last_id_ = 0;
};

}  // namespace quire
