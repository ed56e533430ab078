// What every protocol of a server shares: the engine, the way into it, and the account of what went
// through it. A protocol turns a wire request into a GenerateRequest and submits it here;
// admission, the log line, the metrics and the drain follow from that alone.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/api.h"
#include "serve/deferred_calls.h"
#include "serve/drain_rate.h"
#include "serve/live/latency_window.h"
#include "serve/metrics.h"
#include "serve/request_observer.h"
#include "serve/token_widths.h"
#include "serve/why/request_directory.h"

namespace quire {

struct ServiceConfig {
  std::vector<std::string> served_model_names;  // at least one; the first is shown
  bool strict_fields = false;                   // unknown request fields are refused
  bool trust_request_chat_template = false;     // requests may bring a chat template
  bool log_requests = true;
  std::int64_t max_logprobs = 20;
  std::uint64_t max_response_bytes = 256ULL << 20;  // that an answer as a whole may have
  std::int64_t created = 0;  // Unix time of the model's start, for /v1/models
  std::chrono::milliseconds heartbeat_timeout{10'000};
};

class Service {
 public:
  // `config` names at least one model. `steps` is told of the engine's steps by whoever created the
  // engine.
  Service(std::unique_ptr<Engine> engine, ServiceConfig config,
          std::shared_ptr<const StepMeter> steps);

  Engine& engine() const { return *engine_; }
  std::int64_t max_logprobs() const { return config_.max_logprobs; }
  const TokenWidths& token_widths() const { return token_widths_; }
  const ServiceConfig& config() const { return config_; }
  const Metrics& metrics() const { return metrics_; }
  // The requests of late and their stories.
  RequestDirectory& directory() { return directory_; }
  LatencyWindow& latencies() { return latencies_; }

  const std::string& model_name() const { return config_.served_model_names.front(); }
  // Whether requests may name this model. An empty name stands for the one that there is.
  bool serves(std::string_view model) const;

  ~Service();

  // As Engine::submit, and records the request under its external id when it ends. kUnavailable
  // while draining, unless it was reserved before, or after the engine's end; kResourceExhausted
  // where the queue is full.
  Result<RequestId> submit(RequestOrigin origin, GenerateRequest request, OutputSink sink);
  // As Engine::reserve, for requests that are submitted bit by bit by deferred(), which runs after
  // this. kUnavailable while draining.
  Status reserve(std::int64_t num_outputs);
  DeferredCalls& deferred() { return deferred_; }

  // No request is taken any more; those in flight go on.
  void drain() { draining_ = true; }
  bool draining() const { return draining_; }
  std::int64_t num_in_flight() const { return num_in_flight_; }

  // Seconds after which a request that the full queue refused should find room, by the rate at
  // which requests ended lately: at least 1.
  std::int64_t retry_after_seconds() const;

  // Looks at the engine's heartbeat; ok, or why it is dead. Call it at least every second.
  Status check_heartbeat();

 private:
  struct Account;
  Status check_open() const;
  void take_account(Account& account, const RequestOutput& output);

  ServiceConfig config_;
  TokenWidths token_widths_;
  Metrics metrics_;
  RequestDirectory directory_;
  DrainRate drain_rate_;
  LatencyWindow latencies_;
  std::atomic<bool> draining_ = false;
  std::atomic<std::int64_t> num_in_flight_ = 0;
  DeferredCalls deferred_;
  std::mutex heartbeat_mutex_;
  std::uint64_t last_progress_ = 0;
  Instant last_change_{};
  std::unique_ptr<Engine>
      engine_;  // last: while it ends it calls sinks, which use all of the above
};

}  // namespace quire
