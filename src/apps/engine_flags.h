// The flags that every command which runs a model shares.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "base/status.h"
#include "engine/api.h"

namespace quire {

// Adds --model, --tokenizer, --dtype, ... to `app`; parsing fills `args`.
void add_engine_flags(CLI::App& app, EngineArgs& args);

// Finds or fetches the model (local_model.h), loads it, and shows progress on stderr.
// `stepped`, if given, is told of every step; `profile`, if not null, is filled in.
Result<std::unique_ptr<Engine>> start_engine(EngineArgs args,
                                             std::function<void(const StepRecord&)> stepped = {},
                                             EngineProfile* profile = nullptr);

}  // namespace quire
