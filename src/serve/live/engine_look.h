// What the live view reads of the engine: plain data, read on the engine's thread between two
// steps and made into text elsewhere.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/api.h"

namespace quire {

struct EngineLook {
  // Listed of each, the first ones; EngineStats has the true numbers.
  static constexpr std::size_t kMaxRunning = 512;
  static constexpr std::size_t kMaxWaiting = 128;

  // Engine thread, through Engine::inspect. O(outputs listed).
  EngineLook(const EngineState& state, Instant now)
      : time(now),
        stats(state.stats()),
        running(state.running(kMaxRunning, now)),
        waiting(state.waiting(kMaxWaiting, now)) {}
  EngineLook() = default;

  Instant time{};
  EngineStats stats;
  std::vector<OutputState> running;  // in their order
  std::vector<OutputState> waiting;  // the next one first
};

}  // namespace quire
