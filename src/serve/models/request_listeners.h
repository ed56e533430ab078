// Who listens to every request of a model: metrics, the directory, the drain, the log, traces. Each
// is told of the same events and knows nothing of the others; a further one is a class here and a
// member of the list in served_model.h. They are told by plain calls, for some events come with
// each token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "engine/api.h"
#include "serve/live/latency_window.h"
#include "serve/metrics/metrics.h"
#include "serve/models/drain_rate.h"
#include "serve/quotas/key_quotas.h"
#include "serve/requests/drain.h"
#include "serve/requests/request_observer.h"
#include "serve/why/request_directory.h"

namespace quire {

// One request (of one prompt) as its listeners see it, until it ends.
struct FollowedRequest {
  RequestOrigin origin;
  RequestShape shape;
  Instant received{};
  Instant submitted{};
  std::int64_t num_output_tokens = 0;  // of all outputs so far
  std::vector<Instant> last_token;     // of each output; zero before the first

  // Listeners' own.
  std::shared_ptr<RequestDirectory::Entry> entry;
  std::size_t observed_as = 0;  // what the origin's observer calls it
  std::int64_t charged_tokens = 0;
};

// Listens to nothing. A listener has what it wants to hear in place of what is here.
struct RequestListener {
  // Before the engine hears of it.
  void begun(FollowedRequest& /*request*/, const GenerateRequest& /*what*/) {}
  // The engine has accepted it, or refused it: nothing more comes then.
  void taken(FollowedRequest& /*request*/, RequestId /*id*/) {}
  void refused(FollowedRequest& /*request*/) {}

  // The following on the output thread, before the client is told; must not block.
  // An output got a token, `gap` after the one before it, or its first, after the submission.
  void token(LatencyKind /*kind*/, Duration /*gap*/, Instant /*now*/) {}
  // An output has ended; `output` is its last piece.
  void output_ended(FollowedRequest& /*request*/, const RequestOutput& /*output*/,
                    Instant /*now*/) {}
  // And so have all.
  void request_ended(const FollowedRequest& /*request*/, const RequestOutput& /*last*/,
                     Instant /*now*/) {}
  // After the client was told.
  void answered() {}
};

struct MetricsListener : RequestListener {
  explicit MetricsListener(Metrics& to) : metrics(to) {}
  void token(LatencyKind kind, Duration gap, Instant /*now*/) {
    if (kind == LatencyKind::kInterToken) metrics.record_inter_token(gap);
  }
  void output_ended(FollowedRequest& request, const RequestOutput& output, Instant now);
  void request_ended(const FollowedRequest& request, const RequestOutput& last, Instant /*now*/) {
    metrics.record_request(last, request.shape);
  }
  Metrics& metrics;
};

struct LatencyListener : RequestListener {
  explicit LatencyListener(LatencyWindow& to) : latencies(to) {}
  void token(LatencyKind kind, Duration gap, Instant now) { latencies.add(kind, gap, now); }
  LatencyWindow& latencies;
};

struct DirectoryListener : RequestListener {
  explicit DirectoryListener(RequestDirectory& to) : directory(to) {}
  void begun(FollowedRequest& request, const GenerateRequest& what) {
    request.entry = directory.begin(request.origin, what, request.received, request.submitted);
  }
  void taken(FollowedRequest& request, RequestId id) { directory.submitted(request.entry, id); }
  void refused(FollowedRequest& request) { directory.refused(request.entry); }
  void output_ended(FollowedRequest& request, const RequestOutput& output, Instant now) {
    directory.finished(request.entry, output, now);
  }
  RequestDirectory& directory;
};

// The observer that the request brings: its trace.
struct TraceListener : RequestListener {
  void begun(FollowedRequest& request, const GenerateRequest& what);
  void refused(FollowedRequest& request);
  void output_ended(FollowedRequest& request, const RequestOutput& output, Instant now);
};

struct DrainListener : RequestListener {
  explicit DrainListener(Drain& to) : drain(to) {}
  void begun(FollowedRequest& /*request*/, const GenerateRequest& /*what*/) { drain.entered(); }
  void refused(FollowedRequest& /*request*/) { drain.left(); }
  void answered() { drain.left(); }
  Drain& drain;
};

struct DrainRateListener : RequestListener {
  explicit DrainRateListener(DrainRate& to) : rate(to) {}
  void begun(FollowedRequest& request, const GenerateRequest& /*what*/) {
    rate.begun(request.submitted);
  }
  void refused(FollowedRequest& /*request*/) { rate.refused(); }
  void request_ended(const FollowedRequest& /*request*/, const RequestOutput& /*last*/,
                     Instant now) {
    rate.ended(now);
  }
  DrainRate& rate;
};

// Charges the key for the prompt and, at an output's end, for that.
struct QuotaListener : RequestListener {
  explicit QuotaListener(KeyQuotas& to) : quotas(to) {}
  void begun(FollowedRequest& request, const GenerateRequest& what) {
    request.charged_tokens = std::ssize(what.prompt_token_ids);
    charge(request, request.charged_tokens);
  }
  void refused(FollowedRequest& request) { charge(request, -request.charged_tokens); }
  void output_ended(FollowedRequest& request, const RequestOutput& output, Instant /*now*/) {
    charge(request, output.num_output_tokens);
  }
  void charge(const FollowedRequest& request, std::int64_t num_tokens) {
    quotas.charge(request.origin.caller, num_tokens, KeyQuotas::Clock::now());
  }
  KeyQuotas& quotas;
};

// A line of the log for each request.
struct LogListener : RequestListener {
  explicit LogListener(bool is_on) : on(is_on) {}
  void request_ended(const FollowedRequest& request, const RequestOutput& last, Instant now);
  bool on;
};

// All of them, told in this order.
template <typename... Listeners>
class RequestListeners {
 public:
  explicit RequestListeners(Listeners... listeners) : listeners_(listeners...) {}

  // Without memory for one of them the others are told that it was refused, and it throws.
  void begun(FollowedRequest& request, const GenerateRequest& what) {
    std::size_t num_told = 0;
    try {
      tell([&](auto& each) {
        each.begun(request, what);
        ++num_told;
      });
    } catch (const std::bad_alloc&) {
      tell([&](auto& each) {
        if (num_told == 0) return;
        each.refused(request);
        --num_told;
      });
      throw;
    }
  }
  void taken(FollowedRequest& request, RequestId id) {
    tell([&](auto& each) { each.taken(request, id); });
  }
  void refused(FollowedRequest& request) {
    tell([&](auto& each) { each.refused(request); });
  }
  // A piece of an output has come, at `now`.
  void piece(FollowedRequest& request, const RequestOutput& output, Instant now) {
    if (!output.token_ids.empty()) {
      request.num_output_tokens += std::ssize(output.token_ids);
      Instant& last = request.last_token.at(static_cast<std::size_t>(output.index));
      const bool first = last == Instant::zero();
      const auto kind = first ? LatencyKind::kFirstToken : LatencyKind::kInterToken;
      const Duration gap = now - (first ? request.submitted : last);
      tell([&](auto& each) { each.token(kind, gap, now); });
      last = now;
    }
    if (output.finished) tell([&](auto& each) { each.output_ended(request, output, now); });
    if (output.request_finished)
      tell([&](auto& each) { each.request_ended(request, output, now); });
  }
  void answered() {
    tell([](auto& each) { each.answered(); });
  }

 private:
  template <typename Call>
  void tell(const Call& call) {
    std::apply([&](auto&... each) { (call(each), ...); }, listeners_);
  }

  std::tuple<Listeners...> listeners_;
};

}  // namespace quire
