// `quire bench core`: what the scheduler itself costs, without a model. Requests of random lengths
// come and go, so many at a time; every sampled token is a random number.
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/count_option.h"
#include "apps/flag_values.h"
#include "apps/help.h"
#include "apps/statistics.h"
#include "base/checked.h"
#include "base/random.h"
#include "core/scheduler.h"
#include "engine/event_log/event_log.h"

namespace quire {
namespace {

struct CoreFlags {
  std::vector<std::int64_t> concurrency = {1, 4, 16, 64, 256};
  std::int64_t input_len = 128;
  std::int64_t output_len = 128;
  std::int64_t num_steps = 5000;
  std::int64_t block_size = 16;
  std::string event_log;
  bool json = false;
};

struct CoreResult {
  std::int64_t concurrency = 0;
  std::int64_t num_started = 0;
  double scheduled_per_step = 0;  // requests, mean
  // Microseconds of schedule() and update() for each request that a step computes: in every step,
  // and in those in which no request starts or ends.
  Statistics all;
  Statistics steady;
  // With an event log: microseconds of a step that the engine's thread spends on it, all requests
  // together, and the bytes that a scheduled request needs in the log, snapshots included.
  Statistics log;
  double log_bytes = 0;
};

// The random traffic, and an executor that computes nothing.
class Traffic {
 public:
  // `listener` may be null.
  Traffic(const CoreFlags& flags, std::int64_t concurrency, SchedulerListener* listener)
      : flags_(flags), scheduler_(config_of(flags, concurrency)), listener_(listener) {
    if (listener_ != nullptr) listener_->between_steps(scheduler_, Instant{});
  }

  Status add(std::int64_t count) {
    for (; count > 0; --count) {
      SamplingParams params;
      params.max_tokens = around(flags_.output_len);
      params.ignore_eos = true;
      AddRequest request;
      request.request_id = next_id_++;
      request.prompt_token_ids.resize(static_cast<std::size_t>(around(flags_.input_len)));
      for (TokenId& token : request.prompt_token_ids) token = random_token();
      request.sampling_params = std::make_shared<const SamplingParams>(params);
      const Status status = scheduler_.add(request, Instant{});
      if (listener_ != nullptr) listener_->added(request, Instant{}, status);
      QUIRE_RETURN_IF_ERROR(status);
    }
    return {};
  }

  // One step; a new request comes for each that ends, outside the time that is measured.
  Status step() {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    if (listener_ != nullptr) listener_->between_steps(scheduler_, Instant{});
    const auto before = Clock::now();
    QUIRE_RETURN_IF_ERROR(scheduler_.schedule(Instant{}, plan_));
    const auto scheduled = Clock::now();
    if (listener_ != nullptr) listener_->scheduled(plan_, Instant{});
    const auto logged = Clock::now();
    result_.clear();
    result_.step_id = plan_.step_id;
    for (const ScheduledRequest& each : plan_.scheduled) {
      if (each.use != RowUse::kTokens) continue;
      result_.sampled.push_back({.request_id = each.request_id, .token_id = random_token()});
    }
    const auto executed = Clock::now();
    QUIRE_RETURN_IF_ERROR(scheduler_.update(result_, Instant{}, outputs_));
    const auto updated = Clock::now();
    if (listener_ != nullptr) listener_->updated(result_, Instant{});
    const auto end = Clock::now();
    const std::chrono::duration<double, std::micro> log_time =
        (before - start) + (logged - scheduled) + (end - updated);
    log_us_ = log_time.count();
    const std::chrono::duration<double, std::micro> time =
        (scheduled - before) + (updated - executed);
    total_scheduled_ += num_scheduled();
    std::int64_t num_ended = 0;
    for (const RequestStepOutput& output : outputs_) num_ended += output.finished ? 1 : 0;
    us_per_request_ = time.count() / static_cast<double>(plan_.scheduled.size());
    steady_ = num_ended == 0 && plan_.new_requests.empty() && plan_.removed_request_ids.empty();
    return add(num_ended);
  }

  double us_per_request() const { return us_per_request_; }  // of the last step
  double log_us() const { return log_us_; }
  bool steady() const { return steady_; }
  std::int64_t num_scheduled() const { return std::ssize(plan_.scheduled); }
  std::int64_t total_scheduled() const { return total_scheduled_; }  // since the start
  std::int64_t num_started() const {
    const SchedulerStats stats = scheduler_.stats();
    return stats.num_added - stats.num_waiting;
  }
  Status check() const { return scheduler_.check_invariants(); }

 private:
  static SchedulerConfig config_of(const CoreFlags& flags, std::int64_t concurrency) {
    SchedulerConfig config;
    config.max_num_seqs = static_cast<std::int32_t>(concurrency);
    config.max_model_len = static_cast<std::int32_t>(2 * (flags.input_len + flags.output_len));
    config.block_size = static_cast<std::int32_t>(flags.block_size);
    config.num_blocks =
        static_cast<std::int32_t>(concurrency * ceil_div(config.max_model_len, config.block_size));
    return config;
  }

  std::int64_t around(std::int64_t mean) {  // uniform, from half to one and a half of it
    const std::int64_t low = mean - mean / 2;
    return low + static_cast<std::int64_t>(next_random() % static_cast<std::uint64_t>(mean));
  }
  TokenId random_token() { return static_cast<TokenId>(next_random() % 100'000); }
  std::uint64_t next_random() { return random_bits(0, counter_++); }

  CoreFlags flags_;
  Scheduler scheduler_;
  SchedulerListener* listener_;
  SchedulerOutput plan_;
  ModelRunnerOutput result_;
  std::vector<RequestStepOutput> outputs_;
  RequestId next_id_ = 1;
  std::uint64_t counter_ = 0;
  double us_per_request_ = 0;
  double log_us_ = 0;
  std::int64_t total_scheduled_ = 0;
  bool steady_ = false;
};

Result<CoreResult> measure(const CoreFlags& flags, std::int64_t concurrency) {
  std::unique_ptr<EventLog> log;
  if (!flags.event_log.empty()) {
    EventLogOptions options;
    options.base = flags.event_log;
    QUIRE_ASSIGN_OR_RETURN(log, EventLog::open(std::move(options)));
  }
  Traffic traffic(flags, concurrency, log.get());
  QUIRE_RETURN_IF_ERROR(traffic.add(concurrency));
  // At first all start together; by then they are spread out.
  for (std::int64_t i = 0; i < 3 * flags.output_len; ++i) QUIRE_RETURN_IF_ERROR(traffic.step());
  const std::int64_t num_started_before = traffic.num_started();
  std::vector<double> all;
  std::vector<double> steady;
  std::vector<double> log_times;
  std::int64_t num_scheduled = 0;
  for (std::int64_t i = 0; i < flags.num_steps; ++i) {
    QUIRE_RETURN_IF_ERROR(traffic.step());
    all.push_back(traffic.us_per_request());
    if (traffic.steady()) steady.push_back(traffic.us_per_request());
    log_times.push_back(traffic.log_us());
    num_scheduled += traffic.num_scheduled();
  }
  QUIRE_RETURN_IF_ERROR(traffic.check());
  CoreResult result;
  result.concurrency = concurrency;
  result.num_started = traffic.num_started() - num_started_before;
  result.scheduled_per_step =
      static_cast<double>(num_scheduled) / static_cast<double>(flags.num_steps);
  result.all = statistics(std::move(all));
  result.steady = statistics(std::move(steady));
  result.log = statistics(std::move(log_times));
  if (log != nullptr) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until the last is written
    const EventLogStats written = log->stats();
    result.log_bytes =
        static_cast<double>(written.num_bytes) / static_cast<double>(traffic.total_scheduled());
  }
  return result;
}

Status run_core(const CoreFlags& flags) {
  json::array rows;
  if (!flags.json) {
    fmt::print(
        "{} steps; prompts of {} to {} tokens, outputs of {} to {}; microseconds of schedule() and "
        "update()\nfor each request that a step computes\n\n",
        flags.num_steps, flags.input_len - flags.input_len / 2,
        flags.input_len + (flags.input_len - 1) / 2, flags.output_len - flags.output_len / 2,
        flags.output_len + (flags.output_len - 1) / 2);
    fmt::print("{:>10}{:>10}{:>34}{:>32}\n", "", "", "every step", "none starts or ends");
    fmt::print("{:>10}{:>10}{:>10}{:>8}{:>8}{:>8}{:>16}{:>8}{:>8}\n", "at once", "started", "mean",
               "p50", "p90", "p99", "p50", "p90", "p99");
  }
  for (const std::int64_t concurrency : flags.concurrency) {
    QUIRE_ASSIGN_OR_RETURN(const CoreResult result, measure(flags, concurrency));
    if (flags.json) {
      rows.push_back({{"concurrency", result.concurrency},
                      {"num_started", result.num_started},
                      {"scheduled_per_step", result.scheduled_per_step},
                      {"us_per_request_step", to_json(result.all)},
                      {"us_per_request_step_steady", to_json(result.steady)}});
      if (!flags.event_log.empty()) {
        rows.back().as_object()["event_log_us_per_step"] = to_json(result.log);
        rows.back().as_object()["event_log_bytes_per_request_step"] = result.log_bytes;
      }
      continue;
    }
    fmt::print("{:>10}{:>10}{:>10.3f}{:>8.3f}{:>8.3f}{:>8.3f}{:>16.3f}{:>8.3f}{:>8.3f}\n",
               result.concurrency, result.num_started, result.all.mean, result.all.p50,
               result.all.p90, result.all.p99, result.steady.p50, result.steady.p90,
               result.steady.p99);
    if (!flags.event_log.empty()) {
      fmt::print(
          "{:>20} the event log: {:.2f} us a step, p50 {:.2f}, p99 {:.2f}; {:.1f} bytes a "
          "request-step\n",
          "", result.log.mean, result.log.p50, result.log.p99, result.log_bytes);
    }
  }
  if (flags.json) {
    const json::object report = {{"num_steps", flags.num_steps},
                                 {"input_len", flags.input_len},
                                 {"output_len", flags.output_len},
                                 {"block_size", flags.block_size},
                                 {"levels", std::move(rows)}};
    fmt::print("{}\n", json::serialize(report));
  }
  return {};
}

}  // namespace

Command add_bench_core(CLI::App& bench) {
  auto flags = std::make_shared<CoreFlags>();
  set_help(bench, {{{"quire bench core", "1 to 256 requests at once"},
                    {"quire bench core --concurrency 64 --event-log /tmp/events",
                     "and the cost of an event log"}}});
  comma_list(bench.add_option("--concurrency", flags->concurrency,
                              "Requests at once; several values run one after the other"))
      ->type_name("N,...")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  add_count(bench, "--input-len", flags->input_len, "Mean number of prompt tokens", 1, 1 << 13);
  add_count(bench, "--output-len", flags->output_len, "Mean number of output tokens", 1, 1 << 13);
  add_count(bench, "--num-steps", flags->num_steps, "Steps to measure", 1, 1 << 24);
  add_count(bench, "--block-size", flags->block_size, "Tokens of a KV block", 1, 4096);
  bench
      .add_option("--event-log", flags->event_log,
                  "Record to files of this name, and measure the cost")
      ->type_name("FILE");
  bench.add_flag("--json", flags->json, "Print one JSON object");
  return [flags] { return run_core(*flags); };
}

}  // namespace quire
