#include "serve_load/target.h"

#include <charconv>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "serve_load/load_client.h"
#include "serve_load/requests.h"

namespace quire::load {
namespace {

// Of the line "name{labels} value", whose labels have to be among those of `wanted`.
bool names(std::string_view line, std::string_view wanted) {
  const std::size_t brace = wanted.find('{');
  if (brace == std::string_view::npos) {
    return line.starts_with(wanted) && line.size() > wanted.size() &&
           (line[wanted.size()] == '{' || line[wanted.size()] == ' ');
  }
  const std::string_view label = wanted.substr(brace + 1, wanted.size() - brace - 2);
  return line.starts_with(wanted.substr(0, brace + 1)) && line.find(label) != std::string::npos;
}

}  // namespace

Result<std::unique_ptr<Target>> Target::open(const TargetConfig& config) {
  std::unique_ptr<Target> target(new Target());
  if (!config.address.empty()) {
    const std::size_t colon = config.address.rfind(':');
    const std::string_view port =
        colon == std::string::npos ? "" : std::string_view(config.address).substr(colon + 1);
    const auto [at, code] = std::from_chars(port.data(), port.data() + port.size(), target->port_);
    if (code != std::errc() || at != port.data() + port.size()) {
      return Status::invalid_argument(fmt::format("--address {}: no port", config.address),
                                      "write 127.0.0.1:8000");
    }
    target->host_ = config.address.substr(0, colon);
    target->process_ = config.process;
    return target;
  }
  if (!config.program.empty()) {
    std::vector<std::string> arguments = {"--max-num-seqs", std::to_string(config.max_num_seqs),
                                          "--max-num-batched-tokens",
                                          std::to_string(config.max_num_batched_tokens)};
    if (config.step_ms > 0) {
      arguments.insert(arguments.end(), {"--simulate-step-ms", fmt::to_string(config.step_ms)});
    }
    arguments.insert(arguments.end(), config.flags.begin(), config.flags.end());
    QUIRE_ASSIGN_OR_RETURN(target->child_,
                           ServerProcess::start(config.program, config.model, arguments));
    target->port_ = target->child_->port();
    target->process_ = target->child_->id();
    return target;
  }
  SimulatedServerConfig server;
  EngineArgs& engine = server.engine.engine;
  engine.model = config.model;
  engine.max_num_seqs = config.max_num_seqs;
  engine.max_num_batched_tokens = config.max_num_batched_tokens;
  engine.max_queued_requests = 100'000;
  server.engine.step_time = Duration(static_cast<std::int64_t>(config.step_ms * 1e6));
  server.engine.wrap = [trace = &target->trace_](std::unique_ptr<Executor> executor) {
    return trace->watch(std::move(executor));
  };
  QUIRE_ASSIGN_OR_RETURN(target->server_, SimulatedServer::start(std::move(server)));
  target->port_ = target->server_->port();
  return target;
}

Result<std::string> Target::ask(std::string request) const {
  const std::string line = request.substr(0, request.find(" HTTP/"));
  LoadClient client(host_, port_, 1);
  const std::size_t asked = client.add({.request = std::move(request), .keep_body = true});
  QUIRE_RETURN_IF_ERROR(client.run(std::chrono::seconds(60)));
  const ClientResult& result = client.result(asked);
  if (result.ending == Ending::kAnswered && result.status == 200) return result.body;
  return Status::unavailable(
      fmt::format("{}: status {} {}{}", line, result.status, result.error, result.body));
}

Result<json::object> Target::ask_for_object(std::string request) const {
  const std::string line = request.substr(0, request.find(" HTTP/"));
  QUIRE_ASSIGN_OR_RETURN(const std::string body, ask(std::move(request)));
  QUIRE_ASSIGN_OR_RETURN(json::value value, parse_json(body, line));
  if (value.is_object()) return std::move(value.get_object());
  return Status::unavailable(fmt::format("{}: the answer is {}", line, json_kind_name(value)));
}

Result<double> Target::metric(const std::string& name) const {
  QUIRE_ASSIGN_OR_RETURN(const std::string body, ask(get_request("/metrics")));
  std::string_view rest = body;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (names(line, name)) return std::strtod(line.data() + line.rfind(' '), nullptr);
  }
  return Status::not_found(fmt::format("GET /metrics has no {}", name));
}

Status Target::stop() { return child_ == nullptr ? Status() : child_->stop(); }

}  // namespace quire::load
