#include "serve/models/served_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/exhaustion.h"
#include "serve/requests/request_origin.h"

namespace quire {
namespace {

// "ORGANIZATION/NAME", where the model, a folder or a file, is called NAME or NAME.SOMETHING.
bool is_hub_id(std::string_view id, std::string_view model) {
  const std::size_t slash = id.find('/');
  if (slash == 0 || slash == std::string_view::npos) return false;
  const std::string_view last = id.substr(slash + 1);
  if (last.empty() || !model.starts_with(last)) return false;
  return model.size() == last.size() || model[last.size()] == '.';
}

}  // namespace

// The ticket goes last of its members.
struct ServedModel::Sink {
  std::shared_ptr<EngineRequests::Ticket> ticket;
  ServedModel& model;
  std::shared_ptr<FollowedRequest> followed;
  OutputSink forward;

  void operator()(const RequestOutput& output) const {
    // Before its client has the last piece, and may ask.
    model.listeners_.piece(*followed, output, model.engine_->now());
    forward(output);
    if (output.request_finished) model.listeners_.answered();
  }
};

ServedModel::ServedModel(std::shared_ptr<Engine> engine, ServiceConfig config,
                         std::shared_ptr<StepWatch> steps, Drain& drain, KeyQuotas& quotas)
    : config_(std::move(config)),
      steps_(steps == nullptr ? std::make_shared<StepWatch>() : std::move(steps)),
      token_widths_(engine->tokenizer(), engine->info().vocab_size, config_.max_logprobs + 1),
      dialect_(config_.dialect, *engine),
      metrics_(*engine, name(), steps_->meter, config_.price_per_hour),
      drain_(drain),
      listeners_(MetricsListener(metrics_), LatencyListener(latencies_),
                 DirectoryListener(directory_), TraceListener(), DrainListener(drain),
                 DrainRateListener(drain_rate_), QuotaListener(quotas),
                 LogListener(config_.log_requests)),
      preparations_([running = engine.get()] { return running->heartbeat().busy; }),
      last_look_(engine->now()),
      engine_(std::move(engine)),
      live_(*engine_, latencies_, name(), steps_->recorder) {}

ServedModel::~ServedModel() {
  preparations_.stop();
  deferred_.stop();  // its calls submit to the engine
  requests_.end(*engine_);
  if (reserved_room_ > 0) engine_->release(reserved_room_);
}

bool ServedModel::has_name(std::string_view name) const {
  const auto among = [name](const std::vector<std::string>& names) {
    return std::ranges::find(names, name) != names.end();
  };
  if (among(config_.served_model_names) || among(config_.accepted_model_names)) return true;
  return config_.accept_hub_ids && is_hub_id(name, this->name());
}

Status ServedModel::reserve(std::int64_t num_outputs) {
  QUIRE_RETURN_IF_ERROR(drain_.check_open());
  QUIRE_RETURN_IF_ERROR(check_wait());
  QUIRE_RETURN_IF_ERROR(deferred_.start());
  QUIRE_RETURN_IF_ERROR(engine_->reserve(num_outputs));
  reserved_room_ += num_outputs;
  return {};
}

void ServedModel::release(std::int64_t num_outputs) {
  reserved_room_ -= num_outputs;
  engine_->release(num_outputs);
}

Result<RequestId> ServedModel::submit(RequestOrigin origin, GenerateRequest request,
                                      OutputSink sink) {
  if (!request.reserved) {
    QUIRE_RETURN_IF_ERROR(drain_.check_open());
    QUIRE_RETURN_IF_ERROR(check_wait());
  }
  auto followed = std::make_shared<FollowedRequest>();
  followed->received = received_at(origin.received, *engine_);
  followed->submitted = engine_->now();
  followed->shape = {
      .generates = !request.embed, .n = request.params.n, .max_tokens = request.params.max_tokens};
  followed->last_token.resize(
      static_cast<std::size_t>(std::max<std::int64_t>(1, request.params.n)));
  request.external_id = origin.external_id;
  if (!origin.caller.empty()) request.user = origin.caller;
  if (config_.prefix_cache_scope == PrefixCacheScope::kKey) request.cache_owner = origin.caller;
  followed->origin = std::move(origin);
  const std::int64_t used_room = request.reserved ? followed->shape.n : 0;
  listeners_.begun(*followed, request);
  auto id = or_status([&]() -> Result<RequestId> {
    const auto ticket = std::make_shared<EngineRequests::Ticket>(requests_);
    auto taken = engine_->submit(
        std::move(request),
        Sink{.ticket = ticket, .model = *this, .followed = followed, .forward = std::move(sink)});
    if (taken.ok()) ticket->taken(*taken);
    return taken;
  });
  if (id.ok()) {
    reserved_room_ -= used_room;
    listeners_.taken(*followed, *id);
  } else {
    listeners_.refused(*followed);
  }
  return id;
}

std::optional<double> ServedModel::cost_of(Duration step_time) const {
  if (!config_.price_per_hour) return std::nullopt;
  return usd_of(to_seconds(step_time), *config_.price_per_hour);
}

std::optional<double> ServedModel::predicted_wait_s() const {
  // Those that the scheduler does not know yet wait, too.
  const std::int64_t num_waiting =
      std::max(engine_->observe().num_waiting,
               drain_.num_in_flight() - std::int64_t{engine_->info().max_num_seqs});
  if (num_waiting <= 0) return 0;
  const auto rate = drain_rate_.per_second(engine_->now());
  if (!rate) return std::nullopt;
  return static_cast<double>(num_waiting + 1) / *rate;
}

std::int64_t ServedModel::retry_after_seconds() const {
  constexpr double kMaxSeconds = 3600;
  const double enough = config_.max_ttft_s.value_or(0);
  const double wait = predicted_wait_s().value_or(1) - enough;
  return static_cast<std::int64_t>(std::clamp(std::ceil(wait), 1.0, kMaxSeconds));
}

Status ServedModel::check_wait() const {
  if (!config_.max_ttft_s) return {};
  const auto wait = predicted_wait_s();
  if (!wait || *wait <= *config_.max_ttft_s) return {};
  return Status::resource_exhausted(
      fmt::format("the first token would come in about {:.1f} s, and --max-ttft allows {:g}", *wait,
                  *config_.max_ttft_s),
      "try again later");
}

Status ServedModel::check_heartbeat() {
  const std::lock_guard lock(heartbeat_mutex_);
  const EngineHeartbeat beat = engine_->heartbeat();
  if (!beat.failure.ok()) return beat.failure;
  const Instant now = engine_->now();
  silence_ += std::min<Duration>(now - std::exchange(last_look_, now), kLongestHeartbeatGap);
  if (!beat.busy || beat.progress != last_progress_) {
    last_progress_ = beat.progress;
    silence_ = {};
    return {};
  }
  if (silence_ < config_.heartbeat_timeout) return {};
  return Status::unavailable(
      fmt::format("the engine has shown no sign of life for {:.0f} s", to_seconds(silence_)));
}

}  // namespace quire
