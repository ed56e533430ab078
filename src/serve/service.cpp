#include "serve/service.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/exhaustion.h"
#include "base/log.h"
#include "serve/request_origin.h"

namespace quire {
namespace {

double milliseconds(Duration duration) {
  return std::round(to_seconds(duration) * 1e5) / 100;  // two decimals
}

}  // namespace

// The account of one request while it runs. Output thread only.
struct Service::Account {
  RequestOrigin origin;
  std::size_t observed_as = 0;  // what its observer calls it
  Instant submitted{};
  std::shared_ptr<RequestDirectory::Entry> entry;
  bool embed = false;
  std::int64_t output_tokens = 0;
  std::vector<Instant> last_token;  // of each output
};

Service::Service(std::unique_ptr<Engine> engine, ServiceConfig config,
                 std::shared_ptr<const StepMeter> steps)
    : config_(std::move(config)),
      token_widths_(engine->tokenizer(), engine->info().vocab_size, config_.max_logprobs + 1),
      metrics_(*engine, config_.served_model_names.front(), std::move(steps)),
      last_change_(engine->now()),
      engine_(std::move(engine)) {}

bool Service::serves(std::string_view model) const {
  return model.empty() ||
         std::ranges::find(config_.served_model_names, model) != config_.served_model_names.end();
}

// Its calls submit to the engine, and the sinks that the engine calls while it ends post to it.
Service::~Service() { deferred_.stop(); }

Status Service::check_open() const {
  if (!draining_) return {};
  return Status::unavailable("the server is shutting down", "send the request to another one");
}

Status Service::reserve(std::int64_t num_outputs) {
  QUIRE_RETURN_IF_ERROR(check_open());
  QUIRE_RETURN_IF_ERROR(deferred_.start());
  return engine_->reserve(num_outputs);
}

Result<RequestId> Service::submit(RequestOrigin origin, GenerateRequest request, OutputSink sink) {
  if (!request.reserved) QUIRE_RETURN_IF_ERROR(check_open());
  auto account = std::make_shared<Account>();
  const Instant received = received_at(origin.received, *engine_);
  account->submitted = engine_->now();
  account->entry = directory_.begin(origin.external_id, request, received, account->submitted);
  account->origin = std::move(origin);
  account->embed = request.embed;
  RequestObserver* const observer = account->origin.observer.get();
  bool observed = false;
  ++num_in_flight_;
  auto id = or_status([&] {
    request.external_id = account->origin.external_id;
    account->last_token.resize(
        static_cast<std::size_t>(std::max<std::int64_t>(1, request.params.n)));
    if (observer != nullptr) {
      account->observed_as = observer->submitting(account->origin, request);
      observed = true;
    }
    auto accounted = [this, account, forward = std::move(sink)](const RequestOutput& output) {
      take_account(*account, output);
      // Before its client has the last piece, and may ask.
      if (output.finished) directory_.finished(account->entry, output, engine_->now());
      forward(output);
      if (output.request_finished) --num_in_flight_;
    };
    return engine_->submit(std::move(request), std::move(accounted));
  });
  if (id.ok()) {
    directory_.submitted(account->entry, *id);
  } else {
    directory_.refused(account->entry);
    --num_in_flight_;
    if (observed) observer->refused(account->observed_as);
  }
  return id;
}

void Service::take_account(Account& account, const RequestOutput& output) {
  const Instant now = engine_->now();
  account.output_tokens += std::ssize(output.token_ids);
  Instant& last = account.last_token.at(static_cast<std::size_t>(output.index));
  if (!output.token_ids.empty()) {
    if (last != Instant::zero()) {
      metrics_.record_inter_token(now - last);
      latencies_.add(LatencyKind::kInterToken, now - last, now);
    } else {
      latencies_.add(LatencyKind::kFirstToken, now - account.submitted, now);
    }
    last = now;
  }
  if (output.finished) {
    metrics_.record_output(finish_name(output), output.num_output_tokens);
    RequestObserver* observer = account.origin.observer.get();
    if (observer != nullptr) observer->finished(account.observed_as, output);
  }
  if (!output.request_finished) return;

  drain_rate_.record(now);
  metrics_.record_request(output);
  if (!config_.log_requests) return;
  const RequestMetrics& times = output.metrics;
  json::object fields = {{"id", account.origin.external_id},
                         {"prompt_tokens", output.num_prompt_tokens},
                         {"cached_tokens", output.num_cached_tokens},
                         {"output_tokens", account.output_tokens}};
  if (times.first_token) {
    fields["ttft_ms"] = milliseconds(*times.first_token - times.arrival);
    if (times.finished && output.num_output_tokens > 1) {
      fields["tpot_ms"] =
          milliseconds((*times.finished - *times.first_token) / (output.num_output_tokens - 1));
    }
  }
  if (times.num_preemptions > 0) fields["preemptions"] = times.num_preemptions;
  fields["finish"] = finish_name(output);
  if (!output.error.ok()) fields["error"] = output.error.message();
  log_event(account.embed ? "embedding" : "request", fields);
}

std::int64_t Service::retry_after_seconds() const {
  constexpr std::int64_t kMaxSeconds = 3600;
  const auto rate = drain_rate_.per_second(engine_->now());
  if (!rate || *rate <= 0) return 1;
  const auto waiting = static_cast<double>(engine_->observe().num_waiting + 1);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(waiting / *rate)), 1,
                                  kMaxSeconds);
}

Status Service::check_heartbeat() {
  const EngineHeartbeat beat = engine_->heartbeat();
  if (!beat.failure.ok()) return beat.failure;
  const Instant now = engine_->now();
  const std::lock_guard lock(heartbeat_mutex_);
  if (!beat.busy || beat.progress != last_progress_) {
    last_progress_ = beat.progress;
    last_change_ = now;
    return {};
  }
  if (now - last_change_ < config_.heartbeat_timeout) return {};
  return Status::unavailable(fmt::format("the engine has shown no sign of life for {:.0f} s",
                                         to_seconds(now - last_change_)));
}

}  // namespace quire
