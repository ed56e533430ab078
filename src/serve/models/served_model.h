// One model as the server sees it: its engine, tokenizer and chat template, the way into it, and
// what is known of it and of its requests. A protocol turns a wire request into GenerateRequests
// and submits them here; metrics, the directory, the drain, the log and traces follow from that
// alone (request_listeners.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/api.h"
#include "serve/live/latency_window.h"
#include "serve/live/live_view.h"
#include "serve/metrics/metrics.h"
#include "serve/models/answer_dialect.h"
#include "serve/models/deferred_calls.h"
#include "serve/models/drain_rate.h"
#include "serve/models/preparations.h"
#include "serve/models/request_listeners.h"
#include "serve/models/service_config.h"
#include "serve/models/step_watch.h"
#include "serve/models/token_widths.h"
#include "serve/requests/drain.h"
#include "serve/requests/engine_requests.h"
#include "serve/why/request_directory.h"

namespace quire {

class ServedModel {
 public:
  // `engine` may have users besides this. `config` names the model at least once. `steps` is told
  // of the engine's steps by whoever created the engine; null: nobody is. `drain` and `quotas` are
  // the server's and outlive this.
  ServedModel(std::shared_ptr<Engine> engine, ServiceConfig config,
              std::shared_ptr<StepWatch> steps, Drain& drain, KeyQuotas& quotas);
  // Aborts the requests that were submitted here, and waits until their sinks are gone: nobody may
  // submit any more. Those of other users of the engine go on.
  ~ServedModel();

  Engine& engine() const { return *engine_; }
  std::int64_t max_logprobs() const { return config_.max_logprobs; }
  const TokenWidths& token_widths() const { return token_widths_; }
  const AnswerDialect& dialect() const { return dialect_; }
  const ServiceConfig& config() const { return config_; }
  const Metrics& metrics() const { return metrics_; }
  // The requests of late and their stories.
  RequestDirectory& directory() { return directory_; }
  LiveView& live() { return live_; }

  const std::string& name() const { return config_.served_model_names.front(); }
  // Whether requests may name this model so.
  bool has_name(std::string_view name) const;

  // As Engine::submit, and its listeners are told. kUnavailable while draining, unless it was
  // reserved before, or after the engine's end; kResourceExhausted where the queue is full.
  Result<RequestId> submit(RequestOrigin origin, GenerateRequest request, OutputSink sink);
  // As Engine::reserve, for requests that are submitted bit by bit by deferred(), which runs after
  // this. kUnavailable while draining.
  Status reserve(std::int64_t num_outputs);
  // As Engine::release, of room that reserve() has set aside.
  void release(std::int64_t num_outputs);
  DeferredCalls& deferred() { return deferred_; }
  // Where Engine::prepare() is called for requests that are not prepared.
  Preparations& preparations() { return preparations_; }

  // What that much of the time of steps costs, in US dollars; nullopt where there is no price.
  std::optional<double> cost_of(Duration step_time) const;
  // Seconds until a request that came now would have its turn, and so about its time to first
  // token: by those that are ahead of it and the rate at which requests ended lately. 0 where none
  // waits; nullopt where that rate is not known.
  std::optional<double> predicted_wait_s() const;
  // Seconds after which a request that was refused for the queue's length should try again: at
  // least 1.
  std::int64_t retry_after_seconds() const;

  // Looks at the engine's heartbeat; ok, or why it is dead. Call it at least every second: where
  // nobody looked for longer than kLongestHeartbeatGap the whole process stood still, and the rest
  // of that time says nothing of the engine.
  static constexpr std::chrono::seconds kLongestHeartbeatGap{2};
  Status check_heartbeat();

 private:
  using Listeners =
      RequestListeners<MetricsListener, LatencyListener, DirectoryListener, TraceListener,
                       DrainListener, DrainRateListener, QuotaListener, LogListener>;

  // A request's own sink, and what its listeners are told before it is called.
  struct Sink;

  Status check_wait() const;

  ServiceConfig config_;
  std::shared_ptr<StepWatch> steps_;
  TokenWidths token_widths_;
  AnswerDialect dialect_;
  Metrics metrics_;
  RequestDirectory directory_;
  DrainRate drain_rate_;
  LatencyWindow latencies_;
  Drain& drain_;
  Listeners listeners_;
  DeferredCalls deferred_;
  Preparations preparations_;
  std::mutex heartbeat_mutex_;
  std::uint64_t last_progress_ = 0;
  Duration silence_{};  // since progress was last seen
  Instant last_look_{};
  std::atomic<std::int64_t> reserved_room_ = 0;  // set aside in the engine's queue, not used yet
  EngineRequests requests_;
  std::shared_ptr<Engine> engine_;  // while it ends it calls sinks, which use all of the above
  LiveView live_;                   // last: it looks at the engine
};

}  // namespace quire
