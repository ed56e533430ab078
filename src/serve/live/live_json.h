// What viewers of the engine are sent, as JSON text (docs/server.md, "Looking inside").
#pragma once

#include <optional>
#include <string_view>

#include "base/json.h"
#include "engine/api.h"
#include "serve/live/block_map.h"
#include "serve/live/engine_look.h"
#include "serve/live/latency_window.h"

namespace quire {

// What changes a second.
struct LiveRates {
  double prompt_tokens = 0;  // computed; and
  double cached_tokens = 0;  // found computed
  double output_tokens = 0;
  double requests = 0;  // that have ended
  double steps = 0;
};
struct StatsAt {
  Instant time{};
  EngineStats stats;
};
// nullopt where no time has passed.
std::optional<LiveRates> rates_between(const StatsAt& earlier, const StatsAt& later);

struct LiveLatencies {
  LatencySummary first_token;
  LatencySummary inter_token;
};

struct LiveState {
  EngineLook look;
  const BlockRuns* blocks = nullptr;       // not null
  std::optional<LiveRates> rates;          // nullopt: not known, for nobody watched
  std::optional<LiveLatencies> latencies;  // the same
};

json::object state_json(const LiveState& state, const EngineInfo& info,
                        std::string_view model_name);

}  // namespace quire
