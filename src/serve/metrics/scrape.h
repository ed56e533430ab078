// What GET /metrics shows of an engine's numbers, read at each scrape; what is counted between
// scrapes is in metrics.h.
#pragma once

#include <cstdint>
#include <optional>
#include <prometheus/metric_family.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/api.h"

namespace quire {

class StepMeter;
struct HttpServerStats;
struct SpanExportStats;

// Families of metrics whose values are read from somewhere, in the order in which they were added.
class Scrape {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  explicit Scrape(Labels common) : common_(std::move(common)) {}  // of every metric

  void gauge(const std::string& name, const std::string& help, double value,
             const Labels& labels = {});
  void counter(const std::string& name, const std::string& help, std::int64_t value,
               const Labels& labels = {});
  void counter(const std::string& name, const std::string& help, Duration value);  // in seconds
  void histogram(const std::string& name, const std::string& help, const StepMeter& meter);
  std::vector<prometheus::MetricFamily> take() { return std::move(families_); }

 private:
  prometheus::ClientMetric labelled(const Labels& own) const;
  void add(const std::string& name, const std::string& help, prometheus::MetricType type,
           prometheus::ClientMetric metric);

  Labels common_;
  std::vector<prometheus::MetricFamily> families_;
};

// vLLM's gauges and counters of the scheduler, of the cache and of speculation.
void add_vllm(Scrape& out, const EngineStats& stats, const EngineInfo& info);
// Sums that must hold: prompt tokens added = computed + cached + dropped + pending; blocks total =
// free + used; leaked = 0; requests added = finished + aborted + waiting + running.
void add_conservation(Scrape& out, const EngineStats& stats);
// The engine's whole time: requests + idle. Idle is what lies between steps, too, and the step that
// runs, until it has ended. With a price, the same in US dollars.
void add_step_time(Scrape& out, const EngineStats& stats, Duration lifetime,
                   std::optional<double> price_per_hour);
void add_http(Scrape& out, const HttpServerStats& http);
void add_spans(Scrape& out, const SpanExportStats& spans);

}  // namespace quire
