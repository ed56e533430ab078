// `quire serve`: the server.
#include <chrono>
#include <memory>
#include <utility>

#include "apps/commands.h"
#include "apps/descriptor_limit.h"
#include "apps/engine_flags.h"
#include "apps/help.h"
#include "apps/interrupt.h"
#include "apps/model_server.h"
#include "apps/serve_flags.h"
#include "apps/service_manager.h"
#include "apps/simulated_engine.h"
#include "apps/vllm_flags.h"
#include "base/log.h"
#include "serve/memory_return.h"

namespace quire {
namespace {

Result<std::unique_ptr<Engine>> create_engine(const ServeFlags& flags,
                                              const std::shared_ptr<StepWatch>& steps) {
  const auto stepped = [steps](const StepRecord& step) { steps->record(step); };
  if (!flags.simulate_step_ms) return start_engine(flags.engine, stepped);
  log_warning("simulated: no weights are loaded, and the tokens are made up");
  const SimulatedEngineArgs args = {
      .engine = flags.engine,
      .step_time = Duration(static_cast<std::int64_t>(*flags.simulate_step_ms * 1e6)),
      .token_time = Duration(static_cast<std::int64_t>(flags.simulate_token_us * 1e3))};
  return create_simulated_engine(args, stepped);
}

// A service manager that cannot be told is no reason to stop serving: it will show it itself.
void warn_unless_ok(const Status& told) {
  if (!told.ok()) log_warning("{}", told.to_string());
}

Result<EngineToServe> engine_to_serve(const ServeFlags& flags) {
  EngineToServe made = {.engine = nullptr,
                        .steps = std::make_shared<StepWatch>(),
                        .max_logprobs = flags.engine.max_logprobs,
                        .other_names = {flags.engine.model}};
  if (!flags.model_as_named.empty()) made.other_names.push_back(flags.model_as_named);
  QUIRE_ASSIGN_OR_RETURN(made.engine, create_engine(flags, made.steps));
  return made;
}

Status run_serve(ServeFlags flags, const VllmFlags& vllm_flags) {
  init_logging(false, flags.log_format == "json" ? LogFormat::kJson : LogFormat::kText);
  std::vector<std::string> notes;
  QUIRE_RETURN_IF_ERROR(check_vllm_flags(vllm_flags, notes));
  for (const std::string& note : notes) log_info("{}", note);
  QUIRE_RETURN_IF_ERROR(complete_serve_flags(flags));
  return_large_blocks();
  InterruptWatcher interrupt;  // before any other thread
  raise_descriptor_limit();
  QUIRE_ASSIGN_OR_RETURN(const auto server, ModelServer::listen(flags));
  QUIRE_ASSIGN_OR_RETURN(EngineToServe engine, engine_to_serve(flags));
  QUIRE_RETURN_IF_ERROR(server->serve(std::move(engine)));

  const ServiceManager manager = ServiceManager::from_environment();
  QUIRE_RETURN_IF_ERROR(interrupt.watch([&server, &manager] {
    warn_unless_ok(manager.stopping());
    server->shut_down();
  }));
  constexpr std::chrono::milliseconds kHeartbeatCheck(1000);
  server->every(kHeartbeatCheck, [&server, &manager] {
    if (server->check_heartbeat().ok()) warn_unless_ok(manager.alive());
  });
  MemoryReturn memory;
  constexpr std::chrono::milliseconds kMemoryLook(2000);
  server->every(kMemoryLook, [&memory] { memory.look(); });
  warn_unless_ok(manager.ready());
  server->run();
  log_info("stopped");
  return {};
}

}  // namespace

Command add_serve(CLI::App& app, std::span<const std::string> arguments) {
  auto flags = std::make_shared<ServeFlags>();
  auto vllm_flags = std::make_shared<VllmFlags>();
  add_serve_flags(app, *flags);
  add_vllm_flags(app, arguments, *vllm_flags);
  set_help(
      app,
      {{{"quire serve", "the bundled model, on http://127.0.0.1:8000"},
        {"quire serve MODEL --port 9000 --api-key KEY", "another model and port, with a key"}}});
  return [flags, vllm_flags] { return run_serve(*flags, *vllm_flags); };
}

}  // namespace quire
