#include "serve/tracing/tracing.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "base/exhaustion.h"
#include "serve/tracing/request_trace.h"

namespace quire {
namespace {

struct TracedPattern {
  std::string_view pattern;
  std::string_view operation;  // OpenTelemetry's name
};

constexpr std::array<TracedPattern, 4> kTraced = {{{"/v1/completions", "text_completion"},
                                                   {"/v1/chat/completions", "chat"},
                                                   {"/v1/responses", "chat"},
                                                   {"/v1/embeddings", "embeddings"}}};

// Another exchange whose answer is traced.
class TracedExchange final : public Exchange {
 public:
  TracedExchange(std::shared_ptr<Exchange> inner, std::shared_ptr<RequestTrace> trace)
      : inner_(std::move(inner)), trace_(std::move(trace)) {}
  // A handler that lets go of its exchange will not answer any more.
  ~TracedExchange() override { trace_->ended(); }

  TracedExchange(const TracedExchange&) = delete;
  TracedExchange& operator=(const TracedExchange&) = delete;

  const HttpRequest& request() const override { return inner_->request(); }
  void respond(HttpResponse response) override {
    begin(response);
    inner_->respond(std::move(response));
    trace_->ended();
  }
  void start_stream(HttpResponse head) override {
    begin(head);
    inner_->start_stream(std::move(head));
  }
  void write(std::string_view piece) override { inner_->write(piece); }
  void finish() override {
    inner_->finish();
    trace_->ended();
  }
  std::size_t unsent_bytes() const override { return inner_->unsent_bytes(); }
  void on_disconnect(std::function<void()> gone) override {
    inner_->on_disconnect([trace = trace_, gone = std::move(gone)] {
      trace->disconnected();
      gone();
    });
  }
  bool gone() const override { return inner_->gone(); }
  std::shared_ptr<RequestObserver> observer() const override {
    return trace_->sampled() ? trace_ : nullptr;
  }

 private:
  void begin(HttpResponse& response) {
    response.headers.push_back({"traceresponse", trace_->traceresponse()});
    trace_->answering(response.status);
  }

  std::shared_ptr<Exchange> inner_;
  std::shared_ptr<RequestTrace> trace_;
};

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

SpanSource source_of(const OtlpSettings& settings, const std::string& version) {
  SpanSource source = {.resource = {{"service.name", settings.service_name},
                                    {"service.version", version},
                                    {"service.instance.id", to_hex(IdSource().trace_id())},
                                    {"host.name", host_name()},
                                    {"telemetry.sdk.name", "quire"},
                                    {"telemetry.sdk.language", "cpp"},
                                    {"telemetry.sdk.version", version}},
                       .scope_name = "quire",
                       .scope_version = version};
  for (const auto& given : settings.resource) {
    const auto own = std::ranges::find_if(
        source.resource, [&](const auto& pair) { return pair.first == given.first; });
    if (own == source.resource.end()) {
      source.resource.push_back(given);
    } else {
      own->second = given.second;
    }
  }
  return source;
}

}  // namespace

Result<std::unique_ptr<Tracing>> start_tracing(const OtlpSettings& settings,
                                               const std::string& version,
                                               std::vector<SpanAttribute> server_attributes) {
  QUIRE_ASSIGN_OR_RETURN(auto post,
                         make_http_post(settings.exporter.url, settings.headers, settings.timeout));
  SpanExporterConfig config = settings.exporter;
  config.source = source_of(settings, version);
  return or_status([&]() -> Result<std::unique_ptr<Tracing>> {
    return std::unique_ptr<Tracing>(
        new Tracing{.sampler = settings.sampler,
                    .server_attributes = std::move(server_attributes),
                    .exporter = SpanExporter(std::move(config), std::move(post))});
  });
}

std::vector<Route> traced_routes(std::vector<Route> routes, const TracedModel& model,
                                 Tracing& tracing) {
  const auto shared = std::make_shared<const TracedModel>(model);
  for (Route& route : routes) {
    const auto traced = std::ranges::find(kTraced, route.pattern, &TracedPattern::pattern);
    if (traced == kTraced.end() || route.method != "POST") continue;
    route.handler = [shared, &tracing, kind = *traced,
                     handler = std::move(route.handler)](std::shared_ptr<Exchange> exchange) {
      auto trace = std::make_shared<RequestTrace>(shared, tracing, kind.operation, kind.pattern,
                                                  exchange->request());
      handler(std::make_shared<TracedExchange>(std::move(exchange), std::move(trace)));
    };
  }
  return routes;
}

}  // namespace quire
