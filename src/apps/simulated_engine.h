// An engine with a model's tokenizer, template and limits that makes up its tokens.
#pragma once

#include <functional>
#include <memory>

#include "base/status.h"
#include "engine/api.h"
#include "exec/executor.h"

namespace quire {

struct SimulatedEngineArgs {
  EngineArgs engine;      // the model's headers are read, its weights are not
  Duration step_time{};   // of each step, and
  Duration token_time{};  // of each token that it computes
  // May be empty; else puts something around the executor, to watch it.
  std::function<std::unique_ptr<Executor>(std::unique_ptr<Executor>)> wrap = nullptr;
};

// Without kv_cache_memory_bytes the pool holds max_num_seqs sequences of max_model_len, at most a
// million tokens. Errors as Engine::create.
Result<std::unique_ptr<Engine>> create_simulated_engine(
    const SimulatedEngineArgs& args, std::function<void(const StepRecord&)> stepped);

}  // namespace quire
