// The routes that operators and load balancers call: health, readiness, metrics, load, version.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "serve/http/router.h"
#include "serve/http/server.h"
#include "serve/service.h"

namespace quire {

class SpanExporter;

// GET /health: 200 while the engine lives, 503 naming the reason when its heartbeat has stopped.
// GET /ready: 200 while it also accepts requests, 503 while the server drains.
// GET /version, /metrics (Prometheus), /load (requests in flight).
// `http_stats` is asked at each scrape; `spans` is null where no traces are exported.
std::vector<Route> operation_routes(Service& service, std::string version,
                                    std::function<HttpServerStats()> http_stats,
                                    const SpanExporter* spans = nullptr);

}  // namespace quire
