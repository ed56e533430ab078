#include "serve/models/preparations.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/cpu_time.h"

namespace quire {

// Counted until it has ended or is dropped.
struct Preparations::Waiting {
  Waiting(Call its_call, std::atomic<std::size_t>& num_waiting)
      : call(std::move(its_call)), count(num_waiting) {
    ++count;
  }
  ~Waiting() { --count; }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  const Call call;
  std::atomic<std::size_t>& count;
};

Preparations::Preparations(std::function<bool()> busy) : busy_(std::move(busy)) {}

Status Preparations::post(Call call) {
  if (num_waiting_ >= kMaxWaiting) {
    return Status::resource_exhausted(
        fmt::format("{} requests wait for their constraints to be compiled", kMaxWaiting),
        "try again later");
  }
  QUIRE_RETURN_IF_ERROR(short_.start());
  for (LongThread& each : long_) QUIRE_RETURN_IF_ERROR(each.calls.start());
  auto waiting = std::make_shared<Waiting>(std::move(call), num_waiting_);
  short_.post([this, waiting = std::move(waiting)] {
    if (!make(waiting->call, kShort, kRest)) post_long(waiting);
  });
  return {};
}

void Preparations::post_long(std::shared_ptr<Waiting> waiting) {
  LongThread& thread = *std::ranges::min_element(
      long_, {}, [](const LongThread& each) { return each.num_waiting.load(); });
  ++thread.num_waiting;
  thread.calls.post([this, &thread, waiting = std::move(waiting)] {
    make(waiting->call, Duration::max(), kLongRest);
    --thread.num_waiting;
  });
}

bool Preparations::make(const Call& call, Duration longest, int rest) const {
  const Duration begin = thread_cpu_time();
  Duration rested = begin + kFree;
  return call([&, this] {
    if (stopping_) return true;
    const Duration now = thread_cpu_time();
    if (now - begin > longest) return true;
    if (now - rested >= kStint && busy_()) {
      std::this_thread::sleep_for(std::min(rest * (now - rested), kMostRest));
      rested = thread_cpu_time();
    }
    return false;
  });
}

void Preparations::stop() {
  stopping_ = true;
  short_.stop();
  for (LongThread& each : long_) each.calls.stop();
}

}  // namespace quire
