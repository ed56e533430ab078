// `quire serve`: the server.
#include <chrono>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/descriptor_limit.h"
#include "apps/engine_flags.h"
#include "apps/help.h"
#include "apps/interrupt.h"
#include "apps/serve_flags.h"
#include "apps/service_manager.h"
#include "apps/simulated_engine.h"
#include "apps/vllm_flags.h"
#include "base/log.h"
#include "serve/http/access.h"
#include "serve/memory_return.h"
#include "serve/operations.h"
#include "serve/page/page.h"
#include "serve/protocols/llamacpp/llamacpp_routes.h"
#include "serve/protocols/openai/batch/batch_service.h"
#include "serve/protocols/openai/routes.h"
#include "serve/quotas/metered_routes.h"
#include "serve/service.h"
#include "serve/tracing/tracing.h"
#include "serve/why/why_routes.h"

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

void warn_of_open_door(const HttpServerConfig& http) {
  if (!http.uds.empty() || is_loopback_host(http.host) || !http.api_keys.empty()) return;
  log_warning(
      "ANYONE who reaches {}:{} can use this server: there is no API key. Give --api-key KEY, or "
      "listen on 127.0.0.1",
      http.host, http.port);
}

// How embeddings are made, where somebody says so, and why there are none.
void announce_embeddings(const EmbeddingDefaults& embedding) {
  if (const Status status = embedding.check(); !status.ok()) {
    log_warning("/v1/embeddings is refused: {}", status.to_string());
  } else if (!embedding.source.empty()) {
    log_info("embeddings: {} pooling, {}normalized ({})", pooling_name(embedding.pooling),
             embedding.normalize ? "" : "not ", embedding.source);
  }
}

// Null where nobody wants traces.
Result<std::unique_ptr<Tracing>> open_tracing(const ServeFlags& flags, const HttpServer& server) {
  QUIRE_ASSIGN_OR_RETURN(const auto settings,
                         read_otlp_settings(flags.otlp_traces_endpoint, process_environment));
  if (!settings) return std::unique_ptr<Tracing>();
  for (const std::string& note : settings->notes) log_warning("{}", note);
  log_info("traces of requests go to {}", settings->exporter.url);
  std::vector<SpanAttribute> attributes;
  if (flags.http.uds.empty()) {
    attributes = {{"server.address", flags.http.host},
                  {"server.port", std::int64_t{server.port()}}};
  } else {
    attributes = {{"server.address", flags.http.uds}};
  }
  attributes.push_back(
      {"url.scheme", std::string(flags.http.ssl_certfile.empty() ? "http" : "https")});
  return start_tracing(*settings, QUIRE_VERSION, std::move(attributes));
}

// `tracing` may be null.
Router make_router(Service& service, HttpServer& server, bool with_page, Tracing* tracing) {
  Router router;
  router.add_all(operation_routes(
      service, QUIRE_VERSION, [&server] { return server.stats(); },
      tracing == nullptr ? nullptr : &tracing->exporter));
  std::vector<Route> routes = metered_routes(openai_routes(service), service.quotas());
  ServedModel& model = service.model();
  if (tracing != nullptr) {
    const TracedModel traced = {
        .engine = model.engine(), .directory = model.directory(), .name = model.name()};
    routes = traced_routes(std::move(routes), traced, *tracing);
  }
  router.add_all(std::move(routes));
  router.add_all(metered_routes(llamacpp_routes(service), service.quotas()));
  router.add_all(why_routes(model.engine(), model.directory(),
                            model.config().prefix_cache_scope == PrefixCacheScope::kKey));
  if (with_page) router.add_all(page_routes(service));
  return router;
}

// The Batch API's state is kept by default, but a server that cannot have it (another one has it,
// or nobody may write there) serves everything else. A file that was asked for has to be there.
// `router` may be filled after this, before a batch is started.
Result<std::unique_ptr<BatchService>> open_batches(const ServeFlags& flags, const Router& router) {
  const auto handler_of = [&router](std::string_view endpoint) -> const HttpHandler* {
    const Route* route = router.match("POST", endpoint).route;
    return route == nullptr ? nullptr : &route->handler;
  };
  BatchServiceConfig config;
  config.strict_fields = flags.service.strict_fields;
  config.database =
      flags.batch_database.empty() ? default_batch_database(flags.http) : flags.batch_database;
  auto batches = BatchService::open(config, handler_of);
  if (batches.ok() || !flags.batch_database.empty()) return batches;
  log_warning("no /v1/files and /v1/batches: {}; --batch-database FILE gives it another one",
              batches.status().to_string());
  return std::unique_ptr<BatchService>();
}

void announce(const Service& service, const HttpServer& server, const HttpServerConfig& http,
              bool with_page) {
  const std::string& address = server.address();
  log_info("serving {} on {}", service.model().name(), address);
  if (with_page && http.uds.empty()) log_info("open {}/ in a browser", address);
  // A first call that works: without a chat template there are no chats.
  const bool chats = service.model().engine().info().model.chat_template;
  const std::string route = chats ? "/v1/chat/completions" : "/v1/completions";
  const std::string body =
      chats ? R"({"messages": [{"role": "user", "content": "What is the capital of Japan?"}]})"
            : R"({"prompt": "Once upon a time", "max_tokens": 32})";
  const std::string url = http.uds.empty()
                              ? address + route
                              : "--unix-socket " + http.uds + " http://localhost" + route;
  const std::string key =
      http.api_keys.empty() ? "" : " -H 'Authorization: Bearer '\"$QUIRE_API_KEY\"";
  log_info("try: curl {}{} -H 'Content-Type: application/json' -d '{}'", url, key, body);
}

// A service manager that cannot be told is no reason to stop serving: it will show it itself.
void warn_unless_ok(const Status& told) {
  if (!told.ok()) log_warning("{}", told.to_string());
}

// From the first signal on: nothing new is taken, what runs goes on until it is done or its time is
// up. Called on the I/O thread, again and again.
class Shutdown {
 public:
  // `batches` may be null.
  Shutdown(Service& service, HttpServer& server, BatchService* batches, double timeout_s)
      : service_(service), server_(server), batches_(batches), timeout_s_(timeout_s) {}

  // Any thread.
  void begin() {
    service_.model()
        .live()
        .stop();  // its streams would go on for ever; before check() lets everything end
    service_.drain();
    server_.drain();
    if (batches_ != nullptr) batches_->stop();
  }

  void check() {
    if (!service_.draining()) return;
    const auto now = std::chrono::steady_clock::now();
    if (!since_) {
      since_ = now;
      log_info("shutting down: {} requests in flight", service_.num_in_flight());
    }
    const bool idle = service_.num_in_flight() == 0 && server_.stats().exchanges == 0;
    const double waited = std::chrono::duration<double>(now - *since_).count();
    if (!idle && waited < timeout_s_) return;
    if (!idle) log_warning("{} requests were cut off", service_.num_in_flight());
    server_.stop();
  }

 private:
  Service& service_;
  HttpServer& server_;
  BatchService* batches_;
  double timeout_s_;
  std::optional<std::chrono::steady_clock::time_point> since_;
};

Status run_serve(ServeFlags flags, const VllmFlags& vllm_flags) {
  init_logging(false, flags.log_format == "json" ? LogFormat::kJson : LogFormat::kText);
  std::vector<std::string> notes;
  QUIRE_RETURN_IF_ERROR(check_vllm_flags(vllm_flags, notes));
  for (const std::string& note : notes) log_info("{}", note);
  QUIRE_RETURN_IF_ERROR(complete_serve_flags(flags));
  return_large_blocks();
  InterruptWatcher interrupt;  // before any other thread
  raise_descriptor_limit();
  QUIRE_ASSIGN_OR_RETURN(const auto server, HttpServer::listen(flags.http));
  warn_of_open_door(flags.http);
  QUIRE_ASSIGN_OR_RETURN(const auto tracing, open_tracing(flags, *server));

  Router endpoints;
  QUIRE_ASSIGN_OR_RETURN(auto opened_batches, open_batches(flags, endpoints));

  const auto steps = std::make_shared<StepWatch>();
  QUIRE_ASSIGN_OR_RETURN(auto engine, create_engine(flags, steps));
  announce_embeddings(engine->info().embedding);
  if (flags.service.served_model_names.empty()) {
    flags.service.served_model_names.push_back(engine->info().model_name);
    flags.service.accepted_model_names.push_back(flags.engine.model);
    if (!flags.model_as_named.empty()) {
      flags.service.accepted_model_names.push_back(flags.model_as_named);
    }
    flags.service.accept_hub_ids = true;
  }
  Service service(std::move(engine), flags.service, steps);

  endpoints = make_router(service, *server, !flags.disable_page, tracing.get());
  const auto batches = std::move(opened_batches);  // ends before the service that answers its lines
  Router router = endpoints;
  router.set_root_path(flags.root_path);
  if (batches) router.add_all(batches->routes());
  router.add_all(service.model().live().routes());
  if (batches) QUIRE_RETURN_IF_ERROR(batches->start());

  Shutdown shutdown(service, *server, batches.get(), flags.shutdown_timeout_s);
  const ServiceManager manager = ServiceManager::from_environment();
  QUIRE_RETURN_IF_ERROR(interrupt.watch([&shutdown, &manager] {
    warn_unless_ok(manager.stopping());
    shutdown.begin();
  }));
  constexpr std::chrono::milliseconds kShutdownCheck(20);
  constexpr std::chrono::milliseconds kHeartbeatCheck(1000);
  server->every(kShutdownCheck, [&shutdown] { shutdown.check(); });
  server->every(kHeartbeatCheck, [&service, &manager] {
    if (service.model().check_heartbeat().ok()) warn_unless_ok(manager.alive());
  });
  MemoryReturn memory;
  constexpr std::chrono::milliseconds kMemoryLook(2000);
  server->every(kMemoryLook, [&memory] { memory.look(); });
  announce(service, *server, flags.http, !flags.disable_page);
  warn_unless_ok(manager.ready());
  server->run(std::move(router));
  if (batches) batches->stop();
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
