#include "serve/metrics/scrape.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "serve/http/server.h"
#include "serve/metrics/metrics.h"
#include "serve/tracing/span_exporter.h"

namespace quire {

void Scrape::gauge(const std::string& name, const std::string& help, double value,
                   const Labels& labels) {
  auto metric = labelled(labels);
  metric.gauge.value = value;
  add(name, help, prometheus::MetricType::Gauge, std::move(metric));
}

void Scrape::counter(const std::string& name, const std::string& help, std::int64_t value,
                     const Labels& labels) {
  auto metric = labelled(labels);
  metric.counter.value = static_cast<double>(value);
  add(name, help, prometheus::MetricType::Counter, std::move(metric));
}

void Scrape::counter(const std::string& name, const std::string& help, Duration value) {
  auto metric = labelled({});
  metric.counter.value = to_seconds(value);
  add(name, help, prometheus::MetricType::Counter, std::move(metric));
}

void Scrape::histogram(const std::string& name, const std::string& help, const StepMeter& meter) {
  auto metric = labelled({});
  const auto counts = meter.counts();
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    cumulative += static_cast<std::uint64_t>(counts[i]);
    const double bound = i < StepMeter::kBounds.size() ? static_cast<double>(StepMeter::kBounds[i])
                                                       : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back({cumulative, bound});
  }
  metric.histogram.sample_count = cumulative;
  metric.histogram.sample_sum = static_cast<double>(meter.sum());
  add(name, help, prometheus::MetricType::Histogram, std::move(metric));
}

prometheus::ClientMetric Scrape::labelled(const Labels& own) const {
  prometheus::ClientMetric metric;
  for (const Labels* labels : {&common_, &own}) {
    for (const auto& [name, value] : *labels) metric.label.push_back({name, value});
  }
  return metric;
}

void Scrape::add(const std::string& name, const std::string& help, prometheus::MetricType type,
                 prometheus::ClientMetric metric) {
  if (families_.empty() || families_.back().name != name) {
    families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
  }
  families_.back().metric.push_back(std::move(metric));
}

namespace {

// vLLM's gauges and counters of the scheduler.
void add_scheduler(Scrape& out, const EngineStats& stats) {
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
  const auto preempted = [&](const char* method, std::int64_t value) {
    out.counter("quire_preemptions_total", "Preemptions by what becomes of the KV blocks", value,
                {{"method", method}});
  };
  preempted("recompute", stats.num_preemptions - stats.num_preemptions_by_swap);
  preempted("swap", stats.num_preemptions_by_swap);
}

// The tier below the KV cache, where there is one.
void add_offloading(Scrape& out, const EngineStats& stats, const EngineInfo& info) {
  if (info.plan.offload_blocks == 0) return;
  out.counter("vllm:external_prefix_cache_queries_total",
              "Tokens that were not in the prefix cache, looked up in the offloaded blocks",
              stats.external_prefix_cache_queries);
  out.counter("vllm:external_prefix_cache_hits_total",
              "Tokens found in the offloaded blocks, and read from there",
              stats.external_prefix_cache_hits);
  const std::string fetching = "Sequences that wait for offloaded blocks";
  out.gauge("quire_kv_fetches_waiting", fetching, static_cast<double>(stats.num_fetching));
  out.gauge("quire_kv_offload_blocks", "KV blocks in the files of --kv-offload-path, by state",
            static_cast<double>(stats.blocks_tiered), {{"state", "used"}});
  out.gauge("quire_kv_offload_blocks", "KV blocks in the files of --kv-offload-path, by state",
            static_cast<double>(info.plan.offload_blocks), {{"state", "total"}});
  out.gauge("quire_kv_offload_failed", "1: writing has failed, and nothing more is offloaded",
            static_cast<double>(stats.tier.failed));
  const auto blocks = [&](const char* event, std::int64_t count) {
    out.counter("quire_kv_offload_blocks_total", "What became of offloaded KV blocks", count,
                {{"event", event}});
  };
  blocks("offloaded", stats.blocks_offloaded);
  blocks("written", stats.tier.blocks_written);
  blocks("dropped", stats.tier.blocks_dropped);
  blocks("fetched", stats.blocks_fetched);
  blocks("fetch_failed", stats.blocks_fetch_failed);
  blocks("damaged", stats.tier.blocks_damaged);
  const auto bytes = [&](const char* direction, std::int64_t count) {
    out.counter("quire_kv_offload_bytes_total", "Bytes of KV blocks to and from the disk", count,
                {{"direction", direction}});
  };
  bytes("written", stats.tier.bytes_written);
  bytes("read", stats.tier.bytes_read);
  out.counter("quire_kv_fetches_total", "Fetches of offloaded blocks that have ended",
              stats.num_kv_fetches);
}

// vLLM's counters of speculation, where there is any; of accepted tokens by place as many as it
// guesses, and what they add up with (drafted = accepted + rejected + in flight). And times, by
// engine/speculation_report.h.
void add_speculation(Scrape& out, const EngineStats& stats, const EngineInfo& info) {
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
  const SpeculationTimes& times = stats.speculation;
  out.counter("quire_spec_decode_draft_seconds_total", "Time in which drafts were made",
              times.draft);
  out.counter("quire_spec_decode_verify_seconds_total", "Time of steps with drafts", times.verify);
  out.counter("quire_spec_decode_draft_rows_seconds_total",
              "Of that, what the rows of drafts took, as estimated from measured steps",
              times.draft_rows);
  out.counter("quire_spec_decode_plain_seconds_total",
              "What the tokens of steps would have taken without drafts, as estimated; divided by "
              "quire_spec_decode_taken_seconds_total, this is the speed-up",
              times.plain);
  out.counter("quire_spec_decode_taken_seconds_total",
              "What they took, with the time in which drafts were made", times.taken);
}

// What dashboards compute the cache's size from: num_gpu_blocks x block_size tokens.
void add_cache_config(Scrape& out, const EngineInfo& info) {
  out.gauge("vllm:cache_config_info", "The KV cache; its blocks lie where the model runs", 1,
            {{"block_size", std::to_string(info.block_size)},
             {"cache_dtype", info.kv_cache_dtype},
             {"num_gpu_blocks", std::to_string(info.num_blocks)},
             {"num_cpu_blocks", "0"}});
}

// Over all groups used and cached pages are those of quire_blocks.
void add_kv_groups(Scrape& out, const EngineStats& stats) {
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

}  // namespace

void add_vllm(Scrape& out, const EngineStats& stats, const EngineInfo& info) {
  add_scheduler(out, stats);
  add_offloading(out, stats, info);
  add_speculation(out, stats, info);
  add_cache_config(out, info);
}

void add_conservation(Scrape& out, const EngineStats& stats) {
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
  out.gauge("quire_pinned_prefixes", "Prefixes that are pinned (POST /v1/prefixes)",
            static_cast<double>(stats.num_pins));
  out.gauge("quire_pinned_blocks", "KV blocks of pinned prefixes; those of several count for each",
            static_cast<double>(stats.blocks_pinned));
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
  add_kv_groups(out, stats);
}

void add_step_time(Scrape& out, const EngineStats& stats, Duration lifetime,
                   std::optional<double> price_per_hour) {
  const double charged = static_cast<double>(stats.step_time_charged_ns) / 1e9;
  const double idle = std::max(to_seconds(lifetime) - charged, 0.0);
  const std::string time_help = "Time of the engine: in steps, as divided among requests; and else";
  out.gauge("quire_step_time_seconds", time_help, charged, {{"use", "requests"}});
  out.gauge("quire_step_time_seconds", time_help, idle, {{"use", "idle"}});
  if (!price_per_hour) return;
  const std::string cost_help = "What that costs at --price-per-hour";
  out.gauge("quire_cost_usd", cost_help, usd_of(charged, *price_per_hour), {{"use", "requests"}});
  out.gauge("quire_cost_usd", cost_help, usd_of(idle, *price_per_hour), {{"use", "idle"}});
  out.gauge("quire_price_per_hour_usd", "--price-per-hour", *price_per_hour);
}

void add_http(Scrape& out, const HttpServerStats& http) {
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

void add_spans(Scrape& out, const SpanExportStats& spans) {
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

}  // namespace quire
