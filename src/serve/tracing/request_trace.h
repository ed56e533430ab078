// The spans of one wire request: gathers what its HTTP side and the engine tell, and hands the
// spans on when both are done. (Internal to serve/tracing.)
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/message.h"
#include "serve/requests/request_observer.h"
#include "serve/tracing/tracing.h"

namespace quire {

class RequestTrace final : public RequestObserver {
 public:
  // `operation` is OpenTelemetry's ("chat"), `route` the route's pattern; both are literals or
  // outlive this. `tracing` outlives it, too.
  RequestTrace(std::shared_ptr<const TracedModel> model, Tracing& tracing,
               std::string_view operation, std::string_view route, const HttpRequest& request);

  // Whether spans are recorded; the engine's side is called only then.
  bool sampled() const { return context_.sampled(); }
  // The value of the answer's header "traceresponse".
  std::string traceresponse() const { return to_traceparent(context_); }

  // The HTTP side. Any thread.
  void answering(int status);  // the answer's first line
  void ended();                // the answer is complete; later calls do nothing
  void disconnected();         // the client has gone: it will not be

  // The engine's side.
  std::size_t submitting(const RequestOrigin& origin, const GenerateRequest& request) override;
  void refused(std::size_t prompt) override;
  void finished(std::size_t prompt, const RequestOutput& output) override;

 private:
  // What the engine did for one prompt; of several outputs the first or the last to get there.
  struct Prompt {
    bool refused = false;
    bool embed = false;
    Instant submitted{};
    std::optional<Instant> first_scheduled;
    std::optional<Instant> first_token;
    std::optional<Instant> finished;
    std::int64_t input_tokens = 0;
    std::int64_t cached_tokens = 0;
    std::int64_t output_tokens = 0;
    std::int64_t preemptions = 0;
    std::shared_ptr<const RequestTimeline> timeline;  // of the first output; may be null
  };

  void end_locked(std::unique_lock<std::mutex> lock);
  void emit_if_done(std::unique_lock<std::mutex> lock);
  void describe(const RequestOrigin& origin, const GenerateRequest& request);
  std::vector<TraceSpan> spans();
  TraceSpan server_span(const Prompt& whole);
  void add_phases(std::vector<TraceSpan>& spans, const Prompt& prompt, std::size_t number);
  void add_waits(std::span<TraceSpan> phases, const RequestTimeline& timeline) const;
  TraceSpan child(std::string_view name, Instant begin, Instant end);
  Prompt whole() const;
  std::int64_t unix_nanos(Instant instant) const;

  std::shared_ptr<const TracedModel> model_;
  Tracing& tracing_;
  std::string_view operation_;
  IdSource ids_;
  TraceContext context_;  // its span is the server's
  SpanId parent_id_{};
  Instant begin_{};
  std::int64_t unix_offset_ = 0;  // from the engine's clock to Unix time, as it was at the start

  std::mutex mutex_;
  std::vector<SpanAttribute> attributes_;
  std::string name_;
  bool stream_ = false;
  int status_ = 0;
  bool ended_ = false;
  bool emitted_ = false;
  bool disconnected_ = false;
  Instant end_{};
  std::size_t num_open_ = 0;  // prompts that the engine still has
  std::vector<Prompt> prompts_;
  std::vector<std::string> finish_reasons_;
  std::string failure_;
};

}  // namespace quire
