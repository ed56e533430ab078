#include "apps/model_server.h"

#include <atomic>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "apps/own_address.h"
#include "apps/plan/calculator_numbers.h"
#include "base/exhaustion.h"
#include "base/log.h"
#include "serve/http/access.h"
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
Router make_router(Service& service, HttpServer& server, Tracing* tracing) {
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
                            model.config().prefix_cache_scope == PrefixCacheScope::kKey,
                            [&model](Duration step_time) { return model.cost_of(step_time); }));
  return router;
}

// The Batch API's state is kept by default, but a server that cannot have it (another one has it,
// or nobody may write there) serves everything else. A file that was asked for has to be there.
// `router` may be filled after this, before a batch is started.
Result<std::unique_ptr<BatchService>> open_batches(const ServeFlags& flags, const Router& router) {
  if (flags.batch_database.empty() && !flags.default_batch_database) {
    return std::unique_ptr<BatchService>();
  }
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
  log_info("serving {} on {}", service.model().name(), server.address());
  const std::string address = reachable_url(server.address());
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
  // The key itself does not belong in a log.
  const bool keyed = !http.api_keys.empty();
  log_info("try{}: curl {}{} -H 'Content-Type: application/json' -d '{}'",
           keyed ? ", with your key for KEY" : "", url,
           keyed ? " -H 'Authorization: Bearer KEY'" : "", body);
}

// From the first signal on: nothing new is accepted, what runs goes on until it is done or its time
// is up.
class Shutdown {
 public:
  // `batches` may be null.
  Shutdown(Service& service, HttpServer& server, BatchService* batches)
      : service_(service), server_(server), batches_(batches) {}

  // Any thread. The shortest time that was given counts.
  void begin(double timeout_s) {
    double shortest = timeout_s_;
    while (timeout_s < shortest && !timeout_s_.compare_exchange_weak(shortest, timeout_s)) {
    }
    service_.model()
        .live()
        .stop();  // its streams would go on for ever; before check() lets everything end
    service_.drain();
    server_.drain();
    if (batches_ != nullptr) batches_->stop();
  }

  // On the I/O thread, again and again.
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
  std::atomic<double> timeout_s_ = std::numeric_limits<double>::infinity();
  std::optional<std::chrono::steady_clock::time_point> since_;
};

// The model's own name, and what else it may be called.
void name_model(ServiceConfig& config, const EngineToServe& engine) {
  if (!config.served_model_names.empty()) return;
  config.served_model_names.push_back(engine.engine->info().model_name);
  config.accepted_model_names = engine.other_names;
  config.accept_hub_ids = true;
}

}  // namespace

class ModelServer::Parts {
 public:
  explicit Parts(const ServeFlags& flags) : flags_(flags) {}

  Status listen() {
    QUIRE_ASSIGN_OR_RETURN(server_, HttpServer::listen(flags_.http));
    warn_of_open_door(flags_.http);
    QUIRE_ASSIGN_OR_RETURN(tracing_, open_tracing(flags_, *server_));
    QUIRE_ASSIGN_OR_RETURN(opened_batches_, open_batches(flags_, endpoints_));
    return {};
  }

  Status serve(EngineToServe engine) {
    announce_embeddings(engine.engine->info().embedding);
    ServiceConfig config = flags_.service;
    config.max_logprobs = engine.max_logprobs;
    name_model(config, engine);
    const std::string named = engine.other_names.empty() ? "" : engine.other_names.front();
    const std::string written = engine.other_names.empty() ? "" : engine.other_names.back();
    service_ = std::make_unique<Service>(std::move(engine.engine), config, std::move(engine.steps));
    endpoints_ = make_router(*service_, *server_, tracing_.get());
    if (!flags_.disable_page) {
      const std::int64_t max_len = service_->model().engine().info().max_model_len;
      endpoints_.add_all(page_routes(*service_, [named, written, max_len] {
        return served_calculator_numbers(named, written, max_len);
      }));
    }
    batches_ = std::move(opened_batches_);
    router_ = endpoints_;
    router_.set_root_path(flags_.root_path);
    if (batches_) router_.add_all(batches_->routes());
    router_.add_all(service_->model().live().routes());
    if (batches_) QUIRE_RETURN_IF_ERROR(batches_->start());
    shutdown_.emplace(*service_, *server_, batches_.get());
    constexpr std::chrono::milliseconds kShutdownCheck(20);
    server_->every(kShutdownCheck, [this] { shutdown_->check(); });
    return {};
  }

  void run() {
    announce(*service_, *server_, flags_.http, !flags_.disable_page);
    server_->run(std::move(router_));
    if (batches_) batches_->stop();
  }

  HttpServer& http() { return *server_; }
  Service& service() { return *service_; }
  void shut_down(std::optional<double> timeout_s) {
    shutdown_->begin(timeout_s.value_or(flags_.shutdown_timeout_s));
  }

 private:
  const ServeFlags flags_;
  Router endpoints_;  // which the lines of batches name
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<Tracing> tracing_;
  std::unique_ptr<BatchService> opened_batches_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<BatchService> batches_;  // ends before the service that answers its lines
  Router router_;
  std::optional<Shutdown> shutdown_;
};

Result<std::unique_ptr<ModelServer>> ModelServer::listen(const ServeFlags& flags) {
  return or_status([&]() -> Result<std::unique_ptr<ModelServer>> {
    auto parts = std::make_unique<Parts>(flags);
    QUIRE_RETURN_IF_ERROR(parts->listen());
    return std::unique_ptr<ModelServer>(new ModelServer(std::move(parts)));
  });
}

ModelServer::ModelServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ModelServer::~ModelServer() = default;
const std::string& ModelServer::address() const { return parts_->http().address(); }
std::uint16_t ModelServer::port() const { return parts_->http().port(); }
Status ModelServer::serve(EngineToServe engine) {
  return or_status([&] { return parts_->serve(std::move(engine)); });
}
void ModelServer::every(std::chrono::milliseconds interval, std::function<void()> task) {
  parts_->http().every(interval, std::move(task));
}
Status ModelServer::check_heartbeat() { return parts_->service().model().check_heartbeat(); }
void ModelServer::run() { parts_->run(); }
void ModelServer::shut_down(std::optional<double> timeout_s) { parts_->shut_down(timeout_s); }

}  // namespace quire
