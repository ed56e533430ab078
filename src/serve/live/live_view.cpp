#include "serve/live/live_view.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "base/cpu_time.h"
#include "base/exhaustion.h"
#include "base/thread.h"
#include "serve/http/http_error.h"

namespace quire {
namespace {

Duration interval_of(double hz) { return Duration(static_cast<std::int64_t>(1e9 / hz)); }

// The query's hz; nullopt for what is no such number.
std::optional<double> hz_of(const HttpRequest& request) {
  const std::string* text = request.query_param("hz");
  if (text == nullptr) return LiveView::kDefaultHz;
  double hz = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), hz);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  if (!(hz >= LiveView::kMinHz && hz <= LiveView::kMaxHz)) return std::nullopt;
  return hz;
}

HttpResponse unavailable(const char* why) { return http_error(503, why, "no_engine"); }

constexpr const char* kEnded = "the engine has ended";
constexpr const char* kShuttingDown = "the server is shutting down";

}  // namespace

struct LiveView::Viewer {
  std::shared_ptr<Exchange> exchange;
  Duration interval{};
  Instant due{};
  std::optional<std::uint64_t> next_step;  // none before its first event
  std::atomic<bool> gone = false;
};

// What the engine's thread saw. Shared with it, for whoever waits may give up.
struct LiveView::Sighting {
  EngineLook look;
  std::vector<BlockUse> blocks;  // empty where they were not read
  Duration blocks_cost{};
};

LiveView::LiveView(Engine& engine, LatencyWindow& latencies, std::string model_name,
                   StepRecorder& recorder)
    : engine_(engine),
      latencies_(latencies),
      model_name_(std::move(model_name)),
      recorder_(recorder),
      thread_(new_thread("quire-live", [this] { run(); })) {}

void LiveView::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ == nullptr) closed_ = kShuttingDown;
  }
  wake_.notify_one();
}

LiveView::~LiveView() {
  stop();
  thread_.join();
}

std::vector<Route> LiveView::routes() {
  std::vector<Route> routes;
  routes.push_back({.method = "GET",
                    .pattern = "/engine/live",
                    .handler = [this](const auto& exchange) { join(exchange); },
                    .inline_handler = true});
  routes.push_back({.method = "GET",
                    .pattern = "/engine/state",
                    .handler = [this](const auto& exchange) { ask(exchange); },
                    .inline_handler = true});
  return routes;
}

void LiveView::join(const std::shared_ptr<Exchange>& exchange) {
  const HttpResponse head = {.content_type = "text/event-stream",
                             .headers = {{"Cache-Control", "no-store"}}};
  if (exchange->request().method == "HEAD") return exchange->respond(head);
  const auto hz = hz_of(exchange->request());
  if (!hz) {
    return exchange->respond(http_error(
        400, fmt::format("hz: expected a number from {} to {}", kMinHz, kMaxHz), {}, "hz"));
  }
  auto viewer = std::make_shared<Viewer>();
  viewer->exchange = exchange;
  viewer->interval = interval_of(*hz);
  {
    const std::lock_guard lock(mutex_);
    if (closed_ != nullptr) return exchange->respond(unavailable(closed_));
    std::erase_if(viewers_, [](const auto& each) { return each->gone.load(); });
    if (viewers_.size() >= kMaxViewers) {
      return exchange->respond(
          http_error(429, fmt::format("{} viewers watch already", kMaxViewers), "too_many"));
    }
    exchange->start_stream(head);
    viewers_.push_back(viewer);
  }
  exchange->on_disconnect([viewer] { viewer->gone = true; });
  wake_.notify_one();
}

void LiveView::ask(std::shared_ptr<Exchange> exchange) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ != nullptr) return exchange->respond(unavailable(closed_));
    asked_.push_back(std::move(exchange));
  }
  wake_.notify_one();
}

void LiveView::run() {
  // What a look has no memory for is looked at again.
  until_memory([this] { show(); });
  until_memory([this] { watch(false); });
  const std::lock_guard lock(mutex_);
  until_memory([this] {
    for (const auto& viewer : viewers_) {
      viewer->exchange->write("data: " + unavailable(closed_).body + "\n\n");
      viewer->exchange->finish();
    }
  });
  viewers_.clear();
  until_memory([this] {
    for (const auto& exchange : asked_) exchange->respond(unavailable(closed_));
  });
  asked_.clear();
}

void LiveView::show() {
  std::unique_lock lock(mutex_);
  while (closed_ == nullptr) {
    std::erase_if(viewers_, [](const auto& viewer) { return viewer->gone.load(); });
    watch(!viewers_.empty());
    const auto due = next_due();
    const Instant now = engine_.now();
    if (!due) {
      wake_.wait(lock);
    } else if (*due > now) {
      wake_.wait_for(lock, *due - now);
    } else if (!tick(lock) && closed_ == nullptr) {
      closed_ = kEnded;
    }
  }
}

void LiveView::watch(bool on) {
  if (watching_ == on) return;
  watching_ = on;
  history_.clear();
  steps_ = {};
  recorder_.watch(on);
  latencies_.watch(on);
}

// When somebody wants to see something; never sooner than kMaxHz allows.
std::optional<Instant> LiveView::next_due() const {
  std::optional<Instant> due;
  if (!asked_.empty()) due = Instant::zero();
  for (const auto& viewer : viewers_) due = std::min(due.value_or(viewer->due), viewer->due);
  if (due && last_look_) due = std::max(*due, *last_look_ + interval_of(kMaxHz));
  return due;
}

// One look for all who wait for one. Whoever joins or asks meanwhile waits for the lock only as
// long as lists are copied. False: the engine has ended, or stop() was called.
bool LiveView::tick(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  auto sighting = sight();
  if (!sighting) {
    lock.lock();
    return false;
  }
  const Instant now = sighting->look.time;
  const std::string state =
      json::serialize(state_json(take_in(std::move(*sighting)), engine_.info(), model_name_));
  steps_.add(recorder_.take());
  lock.lock();
  const auto viewers = viewers_;
  const auto asked = std::exchange(asked_, {});
  lock.unlock();
  for (const auto& exchange : asked) {
    until_memory([&] {
      exchange->respond({.headers = {{"Cache-Control", "no-store"}}, .body = state});
    });
  }
  send(viewers, state, now);
  lock.lock();
  return true;
}

void LiveView::send(const std::vector<std::shared_ptr<Viewer>>& viewers, std::string_view state,
                    Instant now) {
  std::string event;
  std::optional<std::uint64_t> event_from;  // the first step that it tells of
  for (const auto& viewer : viewers) {
    // Half a look early is in time: looks are not made for each viewer apart.
    if (viewer->due > now + interval_of(kMaxHz) / 2) continue;
    viewer->due = std::max(viewer->due + viewer->interval, now);
    if (viewer->exchange->unsent_bytes() > 0) continue;  // it is slow: the next one will do
    const std::uint64_t from = viewer->next_step.value_or(steps_.begin());
    if (from != event_from) {
      const StepLog::Text steps = steps_.since(from);
      event = fmt::format("data: {{\"state\":{},\"steps\":[{}],\"steps_missed\":{}}}\n\n", state,
                          steps.steps, steps.num_missed);
      event_from = from;
    }
    viewer->next_step = steps_.end();
    viewer->exchange->write(event);
  }
}

// Has the engine's thread look, and waits for it.
std::optional<LiveView::Sighting> LiveView::sight() {
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable arrived;
    bool done = false;
    bool no_memory = false;
    std::optional<Sighting> sighting;
  };
  const auto mailbox = std::make_shared<Mailbox>();
  Engine& engine = engine_;
  const Instant asked = engine.now();
  const bool with_blocks = !last_blocks_ || asked >= *last_blocks_ + kBlocksShare * blocks_cost_;
  engine.inspect([mailbox, with_blocks, &engine](const EngineState* state) {
    std::optional<Sighting> sighting;
    bool no_memory = false;
    try {
      if (state != nullptr) {
        const Instant start = engine.now();
        sighting.emplace();
        sighting->look = EngineLook(*state, start);
        if (with_blocks) {
          // Not the time that went by: had it not run for a moment, the map would grow old.
          const Duration before = thread_cpu_time();
          state->read_block_uses(sighting->blocks);
          sighting->blocks_cost = thread_cpu_time() - before;
        }
      }
    } catch (const std::bad_alloc&) {  // the engine's thread goes on; who asked decides
      no_memory = true;
    }
    const std::lock_guard lock(mailbox->mutex);
    mailbox->sighting = std::move(sighting);
    mailbox->no_memory = no_memory;
    mailbox->done = true;
    mailbox->arrived.notify_one();
  });
  // A step may take long; stop() does not wait for it.
  constexpr std::chrono::milliseconds kCheck(20);
  std::unique_lock lock(mailbox->mutex);
  while (!mailbox->arrived.wait_for(lock, kCheck, [&] { return mailbox->done; })) {
    const std::lock_guard stop_lock(mutex_);
    if (closed_ != nullptr) return std::nullopt;
  }
  if (mailbox->no_memory) throw std::bad_alloc();
  return std::move(mailbox->sighting);
}

LiveState LiveView::take_in(Sighting sighting) {
  const Instant now = sighting.look.time;
  last_look_ = now;
  if (!sighting.blocks.empty()) {
    blocks_ = gather_blocks(sighting.blocks, kMaxBlockRuns);
    last_blocks_ = now;
    blocks_cost_ = sighting.blocks_cost;
  }
  LiveState state;
  state.look = std::move(sighting.look);
  state.blocks = &blocks_;
  if (!watching_) return state;
  history_.push_back({.time = now, .stats = state.look.stats});
  while (history_.size() > 2 && history_[1].time <= now - kRateWindow) history_.pop_front();
  state.rates = rates_between(history_.front(), history_.back());
  const LatencyWindow& latencies = latencies_;
  state.latencies = LiveLatencies{.first_token = latencies.summary(LatencyKind::kFirstToken, now),
                                  .inter_token = latencies.summary(LatencyKind::kInterToken, now)};
  return state;
}

}  // namespace quire
