// Traces of the requests that a server answers: wraps the routes that generate, so that each of
// their requests becomes a span with the phases of its life as children, in the trace that the
// request's headers name or in a new one. The content of prompts and answers is never recorded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "serve/http/router.h"
#include "serve/tracing/otlp_settings.h"
#include "serve/tracing/span_exporter.h"
#include "serve/why/request_directory.h"

namespace quire {

// Outlives the server whose requests are traced.
struct Tracing {
  TraceSampler sampler;
  std::vector<SpanAttribute> server_attributes;  // of each request's span: where this server is
  SpanExporter exporter;
};

// Begins to export. `version` is the program's. kInternal where libcurl cannot start.
Result<std::unique_ptr<Tracing>> start_tracing(const OtlpSettings& settings,
                                               const std::string& version,
                                               std::vector<SpanAttribute> server_attributes);

// What spans say of the model whose requests they are; outlives the routes.
struct TracedModel {
  const Engine& engine;  // its clock
  const RequestDirectory& directory;
  std::string name;
};

// `routes` with those of /v1/completions, /v1/chat/completions, /v1/responses and /v1/embeddings
// traced. Their answers carry the header "traceresponse".
std::vector<Route> traced_routes(std::vector<Route> routes, const TracedModel& model,
                                 Tracing& tracing);

}  // namespace quire
