#include "serve/metrics/metrics.h"

#include <algorithm>
#include <limits>
#include <map>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <string>
#include <utility>
#include <vector>

#include "serve/http/server.h"
#include "serve/tracing/span_exporter.h"

namespace quire {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;
using Family = prometheus::MetricFamily;
using Labels = std::vector<std::pair<std::string, std::string>>;

// The bounds are vLLM's, for dashboards that were made for it.
const Buckets kFirstTokenSeconds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                    0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                    20,    40,    80,   160,  640,  2560};
const Buckets kInterTokenSeconds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                    0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const Buckets kRequestSeconds = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                 30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
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

prometheus::ClientMetric labelled(const Labels& common, const Labels& own) {
  prometheus::ClientMetric metric;
  for (const Labels* labels : {&common, &own}) {
    for (const auto& [name, value] : *labels) metric.label.push_back({name, value});
  }
  return metric;
}

// Families whose values are read from somewhere at each scrape.
class Snapshot {
 public:
  explicit Snapshot(Labels common) : common_(std::move(common)) {}

  void gauge(const std::string& name, const std::string& help, double value,
             const Labels& labels = {}) {
    auto metric = labelled(common_, labels);
    metric.gauge.value = value;
    add(name, help, prometheus::MetricType::Gauge, std::move(metric));
  }
  void counter(const std::string& name, const std::string& help, std::int64_t value,
               const Labels& labels = {}) {
    auto metric = labelled(common_, labels);
    metric.counter.value = static_cast<double>(value);
    add(name, help, prometheus::MetricType::Counter, std::move(metric));
  }
  void histogram(const std::string& name, const std::string& help, const StepMeter& meter) {
    auto metric = labelled(common_, {});
    const auto counts = meter.counts();
    std::uint64_t cumulative = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      cumulative += static_cast<std::uint64_t>(counts[i]);
      const double bound = i < StepMeter::kBounds.size()
                               ? static_cast<double>(StepMeter::kBounds[i])
                               : std::numeric_limits<double>::infinity();
      metric.histogram.bucket.push_back({cumulative, bound});
    }
    metric.histogram.sample_count = cumulative;
    metric.histogram.sample_sum = static_cast<double>(meter.sum());
    add(name, help, prometheus::MetricType::Histogram, std::move(metric));
  }
  std::vector<Family> take() { return std::move(families_); }

 private:
  void add(const std::string& name, const std::string& help, prometheus::MetricType type,
           prometheus::ClientMetric metric) {
    if (families_.empty() || families_.back().name != name) {
      families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
    }
    families_.back().metric.push_back(std::move(metric));
  }

  Labels common_;
  std::vector<Family> families_;
};

// vLLM's gauges and counters of the scheduler.
void add_vllm(Snapshot& out, const EngineStats& stats) {
  out.gauge("vllm:num_requests_running", "Sequences that run",
            static_cast<double>(stats.num_running));
  out.gauge("vllm:num_requests_waiting", "Sequences that wait",
            static_cast<double>(stats.num_waiting));
  const std::string by_reason = "Sequences that wait, by reason: all of them for room in a step";
  out.gauge("vllm:num_requests_waiting_by_reason", by_reason,
            static_cast<double>(stats.num_waiting), {{"reason", "capacity"}});
  out.gauge("vllm:num_requests_waiting_by_reason", by_reason, 0, {{"reason", "deferred"}});
  for (const char* state : {"awake", "weights_offloaded", "discard_all"}) {
    out.gauge("vllm:engine_sleep_state", "1 at the state that the engine is in",
              state == std::string_view("awake") ? 1 : 0, {{"sleep_state", state}});
  }
  const double total = std::max<double>(1, static_cast<double>(stats.blocks_total));
  out.gauge("vllm:kv_cache_usage_perc", "Share of the KV blocks in use, 0 to 1",
            static_cast<double>(stats.blocks_used) / total);
  out.counter("vllm:prompt_tokens_total", "Prompt tokens that were computed or found in the cache",
              stats.prompt_tokens_computed + stats.prompt_tokens_cached);
  const std::string sources = "Prompt tokens by where their keys and values come from";
  const auto from = [&](const char* source, std::int64_t count) {
    out.counter("vllm:prompt_tokens_by_source_total", sources, count, {{"source", source}});
  };
  from("local_compute", stats.prompt_tokens_computed);
  from("local_cache_hit", stats.prompt_tokens_cached);
  from("external_kv_transfer", 0);
  out.counter("vllm:prompt_tokens_cached_total", "Prompt tokens found in the cache",
              stats.prompt_tokens_cached);
  out.counter("vllm:generation_tokens_total", "Tokens that were sampled",
              stats.output_tokens_sampled);
  out.counter("vllm:prefix_cache_queries_total", "Tokens looked up in the prefix cache",
              stats.prefix_cache_queries);
  out.counter("vllm:prefix_cache_hits_total", "Tokens found in the prefix cache",
              stats.prefix_cache_hits);
  out.counter("vllm:num_preemptions_total", "Preemptions", stats.num_preemptions);
}

// vLLM's counters of speculation, where there is any; of accepted tokens by place as many as it
// guesses, and what they add up with (drafted = accepted + rejected + in flight).
void add_speculation(Snapshot& out, const EngineStats& stats, const EngineInfo& info) {
  if (!info.speculation) return;
  out.counter("vllm:spec_decode_num_drafts_total", "How often a sequence was given drafts",
              stats.num_drafted_rows);
  out.counter("vllm:spec_decode_num_draft_tokens_total", "Drafts that were computed",
              stats.draft_tokens);
  out.counter("vllm:spec_decode_num_accepted_tokens_total", "Drafts that were right",
              stats.draft_tokens_accepted);
  out.counter("quire_draft_tokens_rejected_total",
              "Drafts that were wrong, or whose sequence ended or was preempted meanwhile",
              stats.draft_tokens_rejected);
  for (std::int32_t place = 0; place < info.speculation->num_speculative_tokens; ++place) {
    out.counter("vllm:spec_decode_num_accepted_tokens_per_pos_total",
                "Drafts that were right, by their place",
                stats.draft_tokens_accepted_at[static_cast<std::size_t>(place)],
                {{"position", std::to_string(place)}});
  }
}

// What dashboards compute the cache's size from: num_gpu_blocks x block_size tokens.
void add_cache_config(Snapshot& out, const EngineInfo& info) {
  out.gauge("vllm:cache_config_info", "The KV cache; its blocks lie where the model runs", 1,
            {{"block_size", std::to_string(info.block_size)},
             {"cache_dtype", info.kv_cache_dtype},
             {"num_gpu_blocks", std::to_string(info.num_blocks)},
             {"num_cpu_blocks", "0"}});
}

// Sums that must hold: prompt tokens added = computed + cached + dropped + pending; blocks total =
// free + used; leaked = 0; requests added = finished + aborted + waiting + running.
void add_conservation(Snapshot& out, const EngineStats& stats) {
  const std::string tokens = "quire_prompt_tokens";
  const std::string tokens_help = "Prompt tokens by outcome; added is the sum of the others";
  const auto token_gauge = [&](const char* outcome, std::int64_t value) {
    out.gauge(tokens, tokens_help, static_cast<double>(value), {{"outcome", outcome}});
  };
  token_gauge("added", stats.prompt_tokens_added);
  token_gauge("computed", stats.prompt_tokens_computed);
  token_gauge("cached", stats.prompt_tokens_cached);
  token_gauge("dropped", stats.prompt_tokens_dropped);
  token_gauge("pending", stats.prompt_tokens_pending);
  const std::string computed_help = "Tokens computed by source; recomputed ones after preemptions";
  const auto computed = [&](const char* source, std::int64_t value) {
    out.counter("quire_tokens_computed_total", computed_help, value, {{"source", source}});
  };
  computed("prompt", stats.prompt_tokens_computed);
  computed("output", stats.output_tokens_computed);
  computed("recomputed", stats.tokens_recomputed);
  computed("discarded", stats.tokens_discarded);
  const auto blocks = [&](const char* state, std::int64_t value) {
    out.gauge("quire_blocks", "KV blocks by state; total = free + used, cached are free ones",
              static_cast<double>(value), {{"state", state}});
  };
  blocks("total", stats.blocks_total);
  blocks("free", stats.blocks_free);
  blocks("used", stats.blocks_used);
  blocks("cached", stats.blocks_cached);
  blocks("shared", stats.blocks_shared);
  out.gauge(
      "quire_max_step_seconds",
      "How long prompts may make a step that gives others a token (--max-step-ms); 0: no limit",
      std::chrono::duration<double>(stats.max_step).count());
  out.gauge("quire_blocks_leaked", "KV blocks that nobody holds and that are not free: always 0",
            static_cast<double>(stats.blocks_leaked));
  const auto requests = [&](const char* state, std::int64_t value) {
    out.gauge("quire_requests", "Sequences by state; added is the sum of the others",
              static_cast<double>(value), {{"state", state}});
  };
  requests("added", stats.num_added);
  requests("finished", stats.num_finished);
  requests("aborted", stats.num_aborted);
  requests("waiting", stats.num_waiting);
  requests("running", stats.num_running);
  out.counter("quire_steps_total", "Steps of the engine", stats.num_steps);
  for (const RejectionCount& each : stats.rejections) {
    out.counter("quire_requests_rejected_total", "Requests refused at admission", each.count,
                {{"cause", std::string(each.cause)}});
  }
}

// Over all groups used and cached pages are those of quire_blocks.
void add_kv_groups(Snapshot& out, const EngineStats& stats) {
  for (std::size_t i = 0; i < stats.kv_groups.size(); ++i) {
    const KvGroupStats& group = stats.kv_groups[i];
    const auto pages = [&](const char* state, std::int64_t value) {
      out.gauge("quire_kv_group_pages",
                "KV pages by group of layers, with the tokens that these read (0: all; state: they "
                "keep a state), and state; the groups add up to quire_blocks",
                static_cast<double>(value),
                {{"group", std::to_string(i)},
                 {"window", group.state ? "state" : std::to_string(group.window)},
                 {"state", state}});
    };
    pages("used", group.pages_used);
    pages("cached", group.pages_cached);
  }
}

void add_http(Snapshot& out, const HttpServerStats& http) {
  out.gauge("quire_http_connections", "Open connections", static_cast<double>(http.connections));
  out.gauge("quire_http_requests_running", "HTTP requests being answered",
            static_cast<double>(http.exchanges));
  out.counter("quire_http_connections_total", "Connections taken", http.connections_total);
  out.counter("quire_http_requests_total", "HTTP requests taken", http.exchanges_total);
  out.counter("quire_http_disconnects_total", "Clients that went away before their answer's end",
              http.disconnects);
  out.counter("quire_http_slow_readers_total", "Of them: dropped, for they did not read",
              http.slow_readers);
}

void add_spans(Snapshot& out, const SpanExportStats& spans) {
  out.counter("quire_otlp_spans_exported_total", "Spans of traces that the collector has taken",
              spans.exported);
  const auto dropped = [&](const char* reason, std::int64_t count) {
    out.counter("quire_otlp_spans_dropped_total", "Spans of traces that it will not get", count,
                {{"reason", reason}});
  };
  dropped("queue_full", spans.dropped_queue_full);
  dropped("rejected", spans.dropped_rejected);
  dropped("unreachable", spans.dropped_unreachable);
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
  Impl(const Engine& engine, const std::string& model_name, const StepMeter& steps)
      : engine_(engine),
        steps_(steps),
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
    Snapshot snapshot(labels_);
    const EngineStats stats = engine_.observe();
    add_vllm(snapshot, stats);
    add_speculation(snapshot, stats, engine_.info());
    add_cache_config(snapshot, engine_.info());
    snapshot.histogram("vllm:iteration_tokens_total", "Tokens that a step computed, each once",
                       steps_);
    add_conservation(snapshot, stats);
    add_kv_groups(snapshot, stats);
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
  Labels labels_;
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
  prometheus::Histogram& preemptions_;
  prometheus::Histogram& params_n_;
  prometheus::Histogram& params_max_tokens_;
  prometheus::Histogram& most_tokens_;
  prometheus::Histogram& prefill_computed_;
};

Metrics::Metrics(const Engine& engine, const std::string& model_name, const StepMeter& steps)
    : impl_(std::make_unique<Impl>(engine, model_name, steps)) {}
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
