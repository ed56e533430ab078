#include "serve/metrics/metrics.h"

#include <algorithm>
#include <map>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <string>
#include <utility>
#include <vector>

#include "serve/metrics/scrape.h"

namespace quire {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;
using Family = prometheus::MetricFamily;

// The bounds are vLLM's, for dashboards that were made for it.
const Buckets kFirstTokenSeconds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                    0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                    20,    40,    80,   160,  640,  2560};
const Buckets kInterTokenSeconds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                    0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const Buckets kRequestSeconds = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                 30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
const Buckets kStepSeconds = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
                              0.5,   1,     2,     5,    10,   20,   50,  100};
const Buckets kOutputs = {1, 2, 5, 10, 20};
const Buckets kPreemptions = {0, 1, 2, 5, 10, 20, 50};

// 1, 2, 5, 10, ... up to the longest sequence.
Buckets token_buckets(std::int64_t most) {
  Buckets bounds;
  for (std::int64_t decade = 1; decade <= most; decade *= 10) {
    for (const std::int64_t digit : {1, 2, 5}) {
      if (digit * decade <= most) bounds.push_back(static_cast<double>(digit * decade));
    }
  }
  return bounds;
}

}  // namespace

void StepMeter::record(const StepRecord& step) {
  std::int64_t tokens = 0;
  for (const StepShare& share : step.shares) tokens += share.num_tokens;
  const auto bucket = std::ranges::lower_bound(kBounds, tokens) - kBounds.begin();
  counts_[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(tokens, std::memory_order_relaxed);
}

std::array<std::int64_t, StepMeter::kBounds.size() + 1> StepMeter::counts() const {
  std::array<std::int64_t, kBounds.size() + 1> out{};
  std::ranges::transform(counts_, out.begin(),
                         [](const auto& count) { return count.load(std::memory_order_relaxed); });
  return out;
}

class Metrics::Impl {
 public:
  Impl(const Engine& engine, const std::string& model_name, const StepMeter& steps,
       std::optional<double> price_per_hour)
      : engine_(engine),
        steps_(steps),
        price_per_hour_(price_per_hour),
        labels_{{"model_name", model_name}, {"engine", "0"}},
        finished_(prometheus::BuildCounter()
                      .Name("vllm:request_success_total")
                      .Help("Sequences that ended, by reason")
                      .Register(registry_)),
        waited_(prometheus::BuildCounter()
                    .Name("quire_wait_seconds_total")
                    .Help("How long sequences that have ended waited, by cause")
                    .Register(registry_)),
        misses_(prometheus::BuildCounter()
                    .Name("quire_prefix_cache_misses_total")
                    .Help("Sequences that have ended, by why the prefix cache had no more of them")
                    .Register(registry_)),
        first_token_(histogram("vllm:time_to_first_token_seconds", "From arrival to first token",
                               kFirstTokenSeconds)),
        inter_token_(histogram("vllm:inter_token_latency_seconds", "From a token to the next",
                               kInterTokenSeconds)),
        end_to_end_(histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token",
                              kRequestSeconds)),
        queue_(histogram("vllm:request_queue_time_seconds", "From arrival to the first step",
                         kRequestSeconds)),
        prefill_(histogram("vllm:request_prefill_time_seconds",
                           "From the first step to the first token", kRequestSeconds)),
        decode_(histogram("vllm:request_decode_time_seconds", "From first to last token",
                          kRequestSeconds)),
        prompt_tokens_(histogram("vllm:request_prompt_tokens", "Prompt tokens of a request",
                                 token_buckets(engine.info().max_model_len))),
        generation_tokens_(histogram("vllm:request_generation_tokens", "Tokens of an output",
                                     token_buckets(engine.info().max_model_len))),
        inference_(histogram("vllm:request_inference_time_seconds",
                             "From the first step to the last token", kRequestSeconds)),
        mean_inter_token_(histogram("vllm:request_time_per_output_token_seconds",
                                    "Mean time of a request's tokens after the first",
                                    kInterTokenSeconds)),
        step_time_(histogram("quire_request_step_time_seconds",
                             "A request's shares of the time of steps", kStepSeconds)),
        preemptions_(
            histogram("vllm:request_num_preemptions", "Preemptions of a request", kPreemptions)),
        params_n_(histogram("vllm:request_params_n", "Outputs that a request asks for", kOutputs)),
        params_max_tokens_(histogram("vllm:request_params_max_tokens",
                                     "Tokens of an output that a request allows",
                                     token_buckets(engine.info().max_model_len))),
        most_tokens_(histogram("vllm:request_max_num_generation_tokens",
                               "Tokens of a request's longest output",
                               token_buckets(engine.info().max_model_len))),
        prefill_computed_(histogram("vllm:request_prefill_kv_computed_tokens",
                                    "Prompt tokens of a request that were not cached",
                                    token_buckets(engine.info().max_model_len))) {}

  void record_output(std::string_view reason, std::int64_t num_tokens) {
    finished_.Add(labels_and("finished_reason", reason)).Increment();
    generation_tokens_.Observe(static_cast<double>(num_tokens));
  }

  void record_timeline(const RequestTimeline& timeline) {
    for (std::size_t i = 0; i < kNumWaitCauses; ++i) {
      const auto cause = static_cast<WaitCause>(i);
      const Duration waited = timeline.total(cause, Instant{});
      if (waited == Duration::zero()) continue;
      waited_.Add(labels_and("cause", wait_cause_name(cause))).Increment(to_seconds(waited));
    }
    if (!timeline.prefix_miss()) return;
    misses_.Add(labels_and("cause", prefix_miss_name(timeline.prefix_miss()->cause))).Increment();
  }

  void record_request(const RequestOutput& last, const RequestShape& shape) {
    const RequestMetrics& times = last.metrics;
    prompt_tokens_.Observe(static_cast<double>(last.num_prompt_tokens));
    preemptions_.Observe(times.num_preemptions);
    step_time_.Observe(to_seconds(shape.step_time));
    if (shape.generates) {
      params_n_.Observe(static_cast<double>(shape.n));
      params_max_tokens_.Observe(static_cast<double>(shape.max_tokens));
      most_tokens_.Observe(static_cast<double>(shape.most_output_tokens));
    }
    if (!times.finished) return;
    end_to_end_.Observe(to_seconds(*times.finished - times.arrival));
    if (!times.first_scheduled) return;
    queue_.Observe(to_seconds(*times.first_scheduled - times.arrival));
    inference_.Observe(to_seconds(*times.finished - *times.first_scheduled));
    prefill_computed_.Observe(static_cast<double>(last.num_prompt_tokens - last.num_cached_tokens));
    if (!times.first_token) return;
    first_token_.Observe(to_seconds(*times.first_token - times.arrival));
    prefill_.Observe(to_seconds(*times.first_token - *times.first_scheduled));
    decode_.Observe(to_seconds(*times.finished - *times.first_token));
    if (last.num_output_tokens > 1) {
      mean_inter_token_.Observe(to_seconds(*times.finished - *times.first_token) /
                                static_cast<double>(last.num_output_tokens - 1));
    }
  }

  void record_inter_token(Duration gap) { inter_token_.Observe(to_seconds(gap)); }

  std::string expose(const HttpServerStats& http, const SpanExportStats* spans,
                     std::optional<double> predicted_wait_s) const {
    Scrape snapshot(labels_);
    const EngineStats stats = engine_.observe();
    add_vllm(snapshot, stats, engine_.info());
    snapshot.histogram("vllm:iteration_tokens_total", "Tokens that a step computed, each once",
                       steps_);
    add_conservation(snapshot, stats);
    add_step_time(snapshot, stats, engine_.now(), price_per_hour_);
    add_http(snapshot, http);
    if (spans != nullptr) add_spans(snapshot, *spans);
    if (predicted_wait_s) {
      snapshot.gauge("quire_predicted_wait_seconds", "Until a request that came now had its turn",
                     *predicted_wait_s);
    }
    std::vector<Family> families = snapshot.take();
    for (Family& family : registry_.Collect()) families.push_back(std::move(family));
    return prometheus::TextSerializer().Serialize(families);
  }

 private:
  prometheus::Labels labels_and(const std::string& name, std::string_view value) const {
    prometheus::Labels all(labels_.begin(), labels_.end());
    all.emplace(name, value);
    return all;
  }

  prometheus::Histogram& histogram(const std::string& name, const std::string& help,
                                   const Buckets& bounds) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(
        prometheus::Labels(labels_.begin(), labels_.end()), bounds);
  }

  const Engine& engine_;
  const StepMeter& steps_;
  const std::optional<double> price_per_hour_;
  Scrape::Labels labels_;
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& finished_;
  prometheus::Family<prometheus::Counter>& waited_;
  prometheus::Family<prometheus::Counter>& misses_;
  prometheus::Histogram& first_token_;
  prometheus::Histogram& inter_token_;
  prometheus::Histogram& end_to_end_;
  prometheus::Histogram& queue_;
  prometheus::Histogram& prefill_;
  prometheus::Histogram& decode_;
  prometheus::Histogram& prompt_tokens_;
  prometheus::Histogram& generation_tokens_;
  prometheus::Histogram& inference_;
  prometheus::Histogram& mean_inter_token_;
  prometheus::Histogram& step_time_;
  prometheus::Histogram& preemptions_;
  prometheus::Histogram& params_n_;
  prometheus::Histogram& params_max_tokens_;
  prometheus::Histogram& most_tokens_;
  prometheus::Histogram& prefill_computed_;
};

Metrics::Metrics(const Engine& engine, const std::string& model_name, const StepMeter& steps,
                 std::optional<double> price_per_hour)
    : impl_(std::make_unique<Impl>(engine, model_name, steps, price_per_hour)) {}
Metrics::~Metrics() = default;

void Metrics::record_output(std::string_view finish_reason, std::int64_t num_tokens) {
  impl_->record_output(finish_reason, num_tokens);
}
void Metrics::record_timeline(const RequestTimeline& timeline) { impl_->record_timeline(timeline); }
void Metrics::record_request(const RequestOutput& last, const RequestShape& shape) {
  impl_->record_request(last, shape);
}
void Metrics::record_inter_token(Duration gap) { impl_->record_inter_token(gap); }
std::string Metrics::expose(const HttpServerStats& http, const SpanExportStats* spans,
                            std::optional<double> predicted_wait_s) const {
  return impl_->expose(http, spans, predicted_wait_s);
}

}  // namespace quire
