#include "apps/bench_serve/load_run.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <sys/resource.h>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include "apps/bench_serve/exchange.h"
#include "apps/bench_serve/request_stream.h"
#include "apps/progress.h"

namespace quire::bench {

namespace asio = boost::asio;
using asio::awaitable;
using std::chrono::steady_clock;

namespace {

constexpr auto kAwaited = asio::as_tuple(asio::use_awaitable);
// How often timeouts and interrupts are looked for, and how late the client is gets measured.
constexpr std::chrono::milliseconds kTick(20);

steady_clock::duration as_duration(double seconds) {
  return std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(seconds));
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class LoadRun final : private RunClock {
 public:
  LoadRun(const ServerAddress& address, const LoadPlan& plan, const InterruptWatcher& interrupt)
      : address_(address),
        plan_(plan),
        interrupt_(interrupt),
        context_(1),
        arrival_timer_(context_),
        tick_timer_(context_),
        progress_(plan.label, "requests") {
    record_.max_concurrency = plan.max_concurrency;
    record_.requests.resize(plan.requests.size());
    for (std::size_t i = 0; i < plan.requests.size(); ++i) {
      record_.requests[i].prompt_tokens = plan.requests[i].prompt_tokens;
      record_.requests[i].intended = plan.arrivals[i];
    }
  }

  RunRecord run() {
    const double cpu_before = cpu_seconds();
    start_ = steady_clock::now();
    spawn(arrive());
    spawn(tick());
    context_.run();
    record_.client_cpu_seconds = cpu_seconds() - cpu_before;
    for (const RequestRecord& request : record_.requests) {
      record_.duration = std::max(record_.duration, request.ended);
    }
    if (plan_.show_progress) show(/*last=*/true);
    return std::move(record_);
  }

 private:
  struct InFlight {
    std::size_t index;
    std::unique_ptr<Connection> connection;
    bool is_new;  // the connection is not open yet
    double deadline;
    bool timed_out = false;
    bool cut_short = false;
  };

  double now() const override {
    return std::chrono::duration<double>(steady_clock::now() - start_).count();
  }

  void on_text(double time, std::optional<double> gap) override {
    const auto slice = static_cast<std::size_t>(time / RunRecord::kSliceSeconds);
    if (slice >= record_.text_events.size()) record_.text_events.resize(slice + 1);
    ++record_.text_events[slice];
    if (gap) record_.inter_token.push_back(static_cast<float>(*gap));
    ++num_text_events_;
  }

  void spawn(awaitable<void> coroutine) {
    asio::co_spawn(context_, std::move(coroutine), [](std::exception_ptr error) {
      if (error) std::rethrow_exception(error);  // out of run(): memory has run out
    });
  }

  awaitable<void> arrive() {
    for (std::size_t i = 0; i < plan_.requests.size(); ++i) {
      const double due = plan_.arrivals[i];
      while (!stopping_ && now() < due) {
        arrival_timer_.expires_at(start_ + as_duration(due));
        co_await arrival_timer_.async_wait(kAwaited);
      }
      if (stopping_) co_return;
      if (due > 0) record_.client_lag.push_back(static_cast<float>(now() - due));
      due_.push_back(i);
      start_due();
    }
    all_arrived_ = true;
    end_if_done();
  }

  void start_due() {
    while (!due_.empty() && !stopping_ &&
           (!plan_.max_concurrency || std::ssize(in_flight_) < *plan_.max_concurrency)) {
      const std::size_t index = due_.front();
      due_.pop_front();
      RequestRecord& request = record_.requests[index];
      request.started = now();
      if (plan_.arrive_with_slots) request.intended = request.started;
      std::unique_ptr<Connection> connection = take_resting();
      const bool is_new = connection == nullptr;
      if (is_new) connection = std::make_unique<Connection>(context_, address_);
      in_flight_.push_back({.index = index,
                            .connection = std::move(connection),
                            .is_new = is_new,
                            .deadline = request.started + plan_.timeout});
      spawn(serve(std::prev(in_flight_.end())));
    }
  }

  awaitable<void> serve(std::list<InFlight>::iterator self) {
    Connection& connection = *self->connection;
    std::optional<Failure> failure;
    if (self->is_new) {
      ++record_.connections_opened;
      const auto error = co_await connection.open(address_.endpoints().front());
      if (error) failure = {.kind = FailureKind::kConnection, .message = error.message()};
    }
    if (!failure) {
      RequestStream stream(connection, record_.requests[self->index], *this);
      const std::string& body = plan_.requests[self->index].body;
      const std::string head = request_head(address_.url(), plan_.route, plan_.api_key, body.size(),
                                            "text/event-stream");
      failure = co_await stream.run(head, body);
      if (stream.reusable()) resting_.push_back(std::move(self->connection));
    }
    end_request(*self, failure);
    in_flight_.erase(self);
    start_due();
    end_if_done();
  }

  // The one that was used last: it is the least likely to be closed for its idleness.
  std::unique_ptr<Connection> take_resting() {
    while (!resting_.empty()) {
      std::unique_ptr<Connection> connection = std::move(resting_.back());
      resting_.pop_back();
      if (connection->usable()) return connection;
    }
    return nullptr;
  }

  void end_request(const InFlight& ended, std::optional<Failure> failure) {
    RequestRecord& request = record_.requests[ended.index];
    if (!failure) {
      request.outcome = Outcome::kCompleted;
      ++num_completed_;
      return;
    }
    request.ended = now();
    if (ended.cut_short) {
      request.outcome = Outcome::kUnfinished;
      return;
    }
    if (ended.timed_out) {
      failure = {.kind = FailureKind::kTimeout,
                 .message = fmt::format("not answered within {:g} s", plan_.timeout)};
    }
    request.outcome = Outcome::kFailed;
    ++num_failed_;
    record_.failures.add(failure->kind, failure->message);
  }

  void end_if_done() {
    if (in_flight_.empty() && (stopping_ || (all_arrived_ && due_.empty()))) {
      done_ = true;
      tick_timer_.cancel();
    }
  }

  awaitable<void> tick() {
    while (!done_) {
      const auto due = steady_clock::now() + kTick;
      tick_timer_.expires_at(due);
      const auto [cancelled] = co_await tick_timer_.async_wait(kAwaited);
      if (cancelled) continue;
      const std::chrono::duration<float> late = steady_clock::now() - due;
      record_.client_lag.push_back(late.count());
      if (interrupt_.interrupted() && !stopping_) stop();
      end_late_ones();
      if (plan_.show_progress) show(/*last=*/false);
    }
  }

  void stop() {
    stopping_ = true;
    record_.interrupted = true;
    arrival_timer_.cancel();
    for (InFlight& each : in_flight_) {
      each.cut_short = true;
      each.connection->close();
    }
    end_if_done();
  }

  // They were started in the order of their deadlines.
  void end_late_ones() {
    const double time = now();
    for (InFlight& each : in_flight_) {
      if (each.deadline > time) break;
      if (each.timed_out) continue;
      each.timed_out = true;
      each.connection->close();
    }
  }

  void show(bool last) {
    const auto done = static_cast<double>(num_completed_ + num_failed_);
    const auto total = static_cast<double>(plan_.requests.size());
    const double time = now();
    std::string note = fmt::format("{} in flight, {:.0f} tokens/s", in_flight_.size(),
                                   static_cast<double>(num_text_events_ - shown_text_events_) /
                                       std::max(time - shown_at_, 1e-3));
    if (last) note = fmt::format("{:.1f} s", record_.duration);
    if (num_failed_ > 0) note += fmt::format(", {} failed", num_failed_);
    if (last) return progress_.finish(done, total, note);
    progress_.update(done, total, note);
    if (time - shown_at_ < 1) return;
    shown_at_ = time;
    shown_text_events_ = num_text_events_;
  }

  const ServerAddress& address_;
  const LoadPlan& plan_;
  const InterruptWatcher& interrupt_;
  asio::io_context context_;
  asio::steady_timer arrival_timer_;
  asio::steady_timer tick_timer_;
  ProgressBar progress_;
  steady_clock::time_point start_;
  RunRecord record_;
  std::deque<std::size_t> due_;  // have arrived and wait for a slot
  std::list<InFlight> in_flight_;
  std::vector<std::unique_ptr<Connection>> resting_;
  bool all_arrived_ = false;
  bool stopping_ = false;
  bool done_ = false;
  std::int64_t num_completed_ = 0;
  std::int64_t num_failed_ = 0;
  std::int64_t num_text_events_ = 0;
  std::int64_t shown_text_events_ = 0;  // at the progress bar's last second
  double shown_at_ = 0;
};

}  // namespace

RunRecord run_load(const ServerAddress& address, const LoadPlan& plan,
                   const InterruptWatcher& interrupt) {
  return LoadRun(address, plan, interrupt).run();
}

}  // namespace quire::bench
