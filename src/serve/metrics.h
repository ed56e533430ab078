// The server's metrics for Prometheus: vLLM's names, so that existing dashboards work, and Quire's
// own conservation set, whose sums must hold (docs/operations.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/api.h"

namespace quire {

struct HttpServerStats;

class Metrics {
 public:
  Metrics(const Engine& engine, std::string model_name);
  ~Metrics();

  // A request (all its n outputs) has ended; `output` is its last one, `output_tokens` the sum.
  void record_request(const RequestOutput& output, std::int64_t output_tokens);
  // A token came, `gap` after the one before it.
  void record_inter_token(Duration gap);
  // A step computed this many tokens. The engine's thread.
  void record_step(std::int64_t num_tokens);

  // The text of GET /metrics.
  std::string expose(const HttpServerStats& http) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
