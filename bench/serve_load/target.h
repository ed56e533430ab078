// The server under load: one that runs already, or a simulated one in this process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "serve_load/process_stats.h"
#include "serve_load/simulated_server.h"
#include "serve_load/step_trace.h"

namespace quire::load {

struct TargetConfig {
  std::string address;  // "127.0.0.1:8000"; empty: in this process
  std::string process;  // the number of the running server's process; empty: unknown
  // In this process.
  std::string model;
  std::int32_t max_num_seqs = 256;
  std::int32_t max_num_batched_tokens = 2048;
  double step_ms = 0;
};

class Target {
 public:
  static Result<std::unique_ptr<Target>> open(const TargetConfig& config);

  const std::string& host() const { return host_; }
  std::uint16_t port() const { return port_; }
  const StepTrace* trace() const { return server_ ? &trace_ : nullptr; }
  ProcessStats stats() const { return read_process_stats(process_); }

  // The value of a metric (with its labels as /metrics writes them), or -1.
  Result<double> metric(const std::string& name) const;

 private:
  Target() = default;

  std::string host_ = "127.0.0.1";
  std::uint16_t port_ = 0;
  std::string process_ = "self";
  StepTrace trace_;  // outlives the server
  std::unique_ptr<SimulatedServer> server_;
};

}  // namespace quire::load
