#include "serve/operations.h"

#include <optional>
#include <utility>

#include "base/json.h"
#include "serve/http/http_error.h"
#include "serve/tracing/span_exporter.h"

namespace quire {
namespace {

void answer(Exchange& exchange, const json::object& body) {
  exchange.respond({.body = json::serialize(body)});
}

Route get(std::string pattern, RouteAccess access, HttpHandler handler) {
  return {.method = "GET",
          .pattern = std::move(pattern),
          .handler = std::move(handler),
          .access = access,
          .inline_handler = true};
}

}  // namespace

std::vector<Route> operation_routes(Service& service, std::string version,
                                    std::function<HttpServerStats()> http_stats,
                                    const SpanExporter* spans) {
  std::vector<Route> routes;
  routes.push_back(get("/health", RouteAccess::kOpen, [&service](const auto& exchange) {
    const Status alive = service.model().check_heartbeat();
    if (!alive.ok()) return exchange->respond(http_error(503, alive.message(), "engine_dead"));
    answer(*exchange, {{"status", "ok"}});
  }));
  routes.push_back(get("/ready", RouteAccess::kOpen, [&service](const auto& exchange) {
    const Status alive = service.model().check_heartbeat();
    if (!alive.ok()) return exchange->respond(http_error(503, alive.message(), "engine_dead"));
    if (service.draining()) {
      return exchange->respond(http_error(503, "the server is shutting down", "draining"));
    }
    answer(*exchange, {{"status", "ready"}});
  }));
  routes.push_back(
      get("/version", RouteAccess::kOpen, [text = std::move(version)](const auto& exchange) {
        answer(*exchange, {{"version", text}});
      }));
  routes.push_back(get("/load", RouteAccess::kKey, [&service](const auto& exchange) {
    const EngineStats stats = service.model().engine().observe();
    answer(*exchange, {{"server_load", service.num_in_flight()},
                       {"num_requests_running", stats.num_running},
                       {"num_requests_waiting", stats.num_waiting}});
  }));
  routes.push_back(get(
      "/metrics", RouteAccess::kKey,
      [&service, spans, stats = std::move(http_stats)](const auto& exchange) {
        std::optional<SpanExportStats> exported;
        if (spans != nullptr) exported = spans->stats();
        const ServedModel& model = service.model();
        exchange->respond({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                           .body = model.metrics().expose(stats(), exported ? &*exported : nullptr,
                                                          model.predicted_wait_s())});
      }));
  return routes;
}

}  // namespace quire
