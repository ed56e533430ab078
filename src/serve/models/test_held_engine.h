// For tests: an engine that stands still while something is asked of it, and looks between its
// steps.
#pragma once

#include <functional>
#include <future>
#include <memory>

#include "engine/api.h"

namespace quire::test {

// As long as this lives the engine begins no step: what it is asked for meanwhile is all there when
// it goes on, however late the thread is that asks. The engine must work, and outlive it.
class HeldEngine {
 public:
  explicit HeldEngine(Engine& engine) {
    const auto holds = std::make_shared<std::promise<void>>();
    engine.inspect([holds, released = released_.get_future().share()](const EngineState* state) {
      holds->set_value();
      if (state != nullptr) released.wait();
    });
    holds->get_future().wait();
  }
  ~HeldEngine() { released_.set_value(); }
  HeldEngine(const HeldEngine&) = delete;
  HeldEngine& operator=(const HeldEngine&) = delete;

 private:
  std::promise<void> released_;
};

// What observe() tells when the engine is through with the steps whose outputs it has handed out.
inline EngineStats settled_stats(Engine& engine) {
  const auto looked = std::make_shared<std::promise<void>>();
  engine.inspect([looked](const EngineState* /*state*/) { looked->set_value(); });
  looked->get_future().wait();
  return engine.observe();
}

// Looks at an engine before each of its steps, from the next one on, until `look` returns false.
// The engine must work until then.
inline void look_at_each_step(Engine& engine, std::function<bool(const EngineState&)> look) {
  const auto next = [&engine](const auto& self, auto each) -> void {
    engine.inspect([self, each](const EngineState* state) {
      if (state != nullptr && each(*state)) self(self, each);
    });
  };
  next(next, std::move(look));
}

}  // namespace quire::test
