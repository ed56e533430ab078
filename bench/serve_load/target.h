// The server under load: one that runs already, one that is started, or a simulated one in this
// process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "serve_load/process_stats.h"
#include "serve_load/server_process.h"
#include "serve_load/simulated_server.h"
#include "serve_load/step_trace.h"

namespace quire::load {

struct TargetConfig {
  std::string address;             // "127.0.0.1:8000" of one that runs; empty: one is started
  std::string process;             // the number of the running server's process; empty: unknown
  std::string program;             // starts `program serve`; empty: a simulated one in this process
  std::vector<std::string> flags;  // of that, besides those below
  // Of the one that is started.
  std::string model;
  std::int32_t max_num_seqs = 256;
  std::int32_t max_num_batched_tokens = 2048;
  double step_ms = 0;  // of a simulated step; a `program` with 0 computes with the model
};

class Target {
 public:
  static Result<std::unique_ptr<Target>> open(const TargetConfig& config);

  const std::string& host() const { return host_; }
  std::uint16_t port() const { return port_; }
  const StepTrace* trace() const { return server_ ? &trace_ : nullptr; }
  ProcessStats stats() const { return read_process_stats(process_); }

  // One request and the body of its answer, which must have the status 200.
  Result<std::string> ask(std::string request) const;
  // The same for an answer that is a JSON object.
  Result<json::object> ask_for_object(std::string request) const;
  // The value of a metric (with its labels as /metrics writes them).
  Result<double> metric(const std::string& name) const;
  // Ends a server that was started as a process. An error where that is not in good order.
  Status stop();

 private:
  Target() = default;

  std::string host_ = "127.0.0.1";
  std::uint16_t port_ = 0;
  std::string process_ = "self";
  StepTrace trace_;  // outlives the server
  std::unique_ptr<SimulatedServer> server_;
  std::unique_ptr<ServerProcess> child_;
};

}  // namespace quire::load
