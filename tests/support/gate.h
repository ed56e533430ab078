// An engine that does one step after the other as a test allows, so that what the test looks for
// does not pass by while nobody looks, however slow the machine is.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "engine/api.h"
#include "sim/wrapped_executor.h"
#include "support/eventually.h"

namespace quire::test {

class Gate {
 public:
  // What computes as `inner` does, each step after waiting for the gate, which has to outlive it.
  std::unique_ptr<Executor> guard(std::unique_ptr<Executor> inner) {
    return std::make_unique<Guarded>(*this, std::move(inner));
  }

  // So many steps more.
  void let(std::int64_t num_steps) {
    const std::lock_guard lock(mutex_);
    num_allowed_ += num_steps;
    changed_.notify_all();
  }
  // Until this the engine behind it may wait for ever, also at its end.
  void open() { let(1'000'000'000); }

  // One step, which observe() tells of when this returns. False: there was nothing to compute.
  bool step(const Engine& engine) {
    const std::int64_t before = engine.observe().num_steps;
    let(1);
    return eventually([&] { return engine.observe().num_steps > before; });
  }
  // Steps, at most `max_steps`, until `holds` comes true of what observe() tells.
  bool step_until(const Engine& engine, const std::function<bool(const EngineStats&)>& holds,
                  int max_steps = 200) {
    for (int i = 0; i < max_steps && !holds(engine.observe()); ++i) {
      if (!step(engine)) return false;
    }
    return holds(engine.observe());
  }

 private:
  class Guarded final : public WrappedExecutor {
   public:
    Guarded(Gate& gate, std::unique_ptr<Executor> inner)
        : WrappedExecutor(std::move(inner)), gate_(gate) {}
    Status submit(const SchedulerOutput& plan) override {
      {
        std::unique_lock lock(gate_.mutex_);
        gate_.changed_.wait(lock, [&] { return gate_.num_allowed_ > 0; });
        --gate_.num_allowed_;
      }
      return WrappedExecutor::submit(plan);
    }

   private:
    Gate& gate_;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t num_allowed_ = 0;
};

// Opens a gate when a test is over, however it ends. Declared behind the engine, it goes first.
class OpenAtEnd {
 public:
  explicit OpenAtEnd(Gate& gate) : gate_(gate) {}
  ~OpenAtEnd() { gate_.open(); }
  OpenAtEnd(const OpenAtEnd&) = delete;
  OpenAtEnd& operator=(const OpenAtEnd&) = delete;

 private:
  Gate& gate_;
};

}  // namespace quire::test
