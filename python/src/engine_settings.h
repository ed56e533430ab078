// The settings of an engine as Python gives them, as JSON: names and defaults are those of
// EngineArgs, which are vLLM's where vLLM has them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/api.h"

namespace quire::python {

struct EngineSettings {
  EngineArgs args;
  // Tokens are made up, and no weights are loaded: the time of a step, and of each of its tokens.
  std::optional<Duration> simulated_step;
  Duration simulated_token{};
};

// Reads an object. Keys that are vLLM's and have no effect here get a line in `notes`. Errors:
// kInvalidArgument for a value of another type and for a key that nobody knows, with the nearest
// that there is, also among `others`, the keys that its caller has read; kUnimplemented for one of
// vLLM's whose capability is missing.
Result<EngineSettings> read_engine_settings(std::string_view text, std::vector<std::string>& notes,
                                            std::span<const std::string> others = {});

// Whether it is the name of one; vLLM's are not.
bool is_engine_setting(std::string_view key);

// Starts the engine: fetches the model where its name is one of a hub and it is not here. `stepped`
// is told of its steps.
Result<std::unique_ptr<Engine>> start_engine(EngineSettings settings,
                                             std::function<void(const StepRecord&)> stepped);

}  // namespace quire::python
