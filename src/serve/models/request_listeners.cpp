#include "serve/models/request_listeners.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/log.h"
#include "serve/requests/request_origin.h"

namespace quire {
namespace {

double milliseconds_of(Duration duration) {
  return std::round(to_seconds(duration) * 1e5) / 100;  // two decimals
}

}  // namespace

void MetricsListener::output_ended(FollowedRequest& request, const RequestOutput& output,
                                   Instant /*now*/) {
  request.shape.most_output_tokens =
      std::max(request.shape.most_output_tokens, output.num_output_tokens);
  request.shape.step_time += output.metrics.step_time;
  metrics.record_output(finish_name(output), output.num_output_tokens);
  if (output.timeline != nullptr) metrics.record_timeline(*output.timeline);
}

void TraceListener::begun(FollowedRequest& request, const GenerateRequest& what) {
  RequestObserver* observer = request.origin.observer.get();
  if (observer != nullptr) request.observed_as = observer->submitting(request.origin, what);
}

void TraceListener::refused(FollowedRequest& request) {
  RequestObserver* observer = request.origin.observer.get();
  if (observer != nullptr) observer->refused(request.observed_as);
}

void TraceListener::output_ended(FollowedRequest& request, const RequestOutput& output,
                                 Instant /*now*/) {
  RequestObserver* observer = request.origin.observer.get();
  if (observer != nullptr) observer->finished(request.observed_as, output);
}

void LogListener::request_ended(const FollowedRequest& request, const RequestOutput& last,
                                Instant /*now*/) {
  if (!on) return;
  const RequestMetrics& times = last.metrics;
  json::object fields = {{"id", request.origin.external_id},
                         {"prompt_tokens", last.num_prompt_tokens},
                         {"cached_tokens", last.num_cached_tokens},
                         {"output_tokens", request.num_output_tokens}};
  if (times.first_token) {
    fields["ttft_ms"] = milliseconds_of(*times.first_token - times.arrival);
    if (times.finished && last.num_output_tokens > 1) {
      fields["tpot_ms"] =
          milliseconds_of((*times.finished - *times.first_token) / (last.num_output_tokens - 1));
    }
  }
  if (times.num_preemptions > 0) fields["preemptions"] = times.num_preemptions;
  fields["finish"] = finish_name(last);
  if (!last.error.ok()) fields["error"] = last.error.message();
  log_event(request.shape.generates ? "request" : "embedding", fields);
}

}  // namespace quire
