#include "apps/bench_serve/measurement.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "apps/bench_serve/arrivals.h"
#include "apps/bench_serve/load_run.h"
#include "apps/bench_serve/server_probe.h"
#include "apps/descriptor_limit.h"

namespace quire::bench {
namespace {

constexpr std::uint64_t kWarmUpSalt = 0;  // levels have 1, 2, ...

struct LevelShape {
  double request_rate;
  std::optional<std::int64_t> max_concurrency;
};

std::vector<LevelShape> level_shapes(const MeasurementPlan& plan) {
  std::vector<LevelShape> shapes;
  for (const double rate : plan.request_rates) {
    if (plan.max_concurrency.empty()) shapes.push_back({rate, std::nullopt});
    for (const std::int64_t limit : plan.max_concurrency) shapes.push_back({rate, limit});
  }
  return shapes;
}

std::string dataset_name(Dataset dataset) {
  switch (dataset) {
    case Dataset::kRandom:
      return "random";
    case Dataset::kPrefix:
      return "prefix";
    case Dataset::kJsonl:
      return "jsonl";
    case Dataset::kTrace:
      return "trace";
  }
  return "";
}

std::string describe_prompts(const WorkloadFlags& flags, const PromptSource& source, bool chat) {
  const std::string unit = source.exact() && !chat ? "tokens" : "words";
  const std::string around = flags.range_ratio > 0 ? "around " : "";
  switch (flags.dataset) {
    case Dataset::kRandom:
      return fmt::format("random prompts of {}{} {}, at most {}{} tokens out", around,
                         flags.input_len, unit, around, flags.output_len);
    case Dataset::kPrefix:
      return fmt::format(
          "prompts of one of {} prefixes of {} {} and {}{} more, at most {}{} tokens "
          "out",
          flags.num_prefixes, flags.prefix_len, unit, around, flags.suffix_len, around,
          flags.output_len);
    case Dataset::kJsonl:
      return fmt::format("prompts of {}", flags.path);
    case Dataset::kTrace:
      return fmt::format("prompts and arrivals of {}", flags.path);
  }
  return "";
}

class Measurement {
 public:
  Measurement(const MeasurementPlan& plan, const InterruptWatcher& interrupt)
      : plan_(plan), interrupt_(interrupt), format_(plan.format), source_({}) {}

  Result<Report> run() {
    QUIRE_ASSIGN_OR_RETURN(const BaseUrl url, parse_base_url(plan_.base_url));
    const WorkloadFlags& workload = plan_.workload;
    if (!workload.path.empty()) {
      QUIRE_ASSIGN_OR_RETURN(lines_, read_workload_file(workload));
    }
    QUIRE_ASSIGN_OR_RETURN(address_, ServerAddress::resolve(url, plan_.insecure));
    QUIRE_ASSIGN_OR_RETURN(format_.model, find_model(address_, plan_.api_key, plan_.model));
    format_.chat = plan_.endpoint.ends_with("/chat/completions");
    const bool draws = workload.path.empty() ||
                       std::ranges::any_of(lines_, [](const auto& line) { return !line.prompt; });
    if (draws && !format_.chat) {
      QUIRE_ASSIGN_OR_RETURN(TokenIds pool,
                             fetch_token_pool(address_, plan_.api_key, format_.model));
      source_ = PromptSource(std::move(pool));
    }
    raise_descriptor_limit();
    QUIRE_RETURN_IF_ERROR(warm_up());
    return run_levels(url);
  }

 private:
  LoadPlan load_plan(std::vector<PlannedRequest> requests) const {
    LoadPlan load;
    load.arrivals.assign(requests.size(), 0.0);
    load.requests = std::move(requests);
    load.route = plan_.endpoint;
    load.api_key = plan_.api_key;
    load.timeout = plan_.timeout;
    return load;
  }

  // So that what a server does once, at its first request, is not measured.
  Status warm_up() const {
    if (plan_.num_warmups == 0) return {};
    WorkloadFlags flags = plan_.workload;
    flags.num_prompts = plan_.num_warmups;
    QUIRE_ASSIGN_OR_RETURN(auto requests,
                           make_requests(flags, lines_, format_, source_, kWarmUpSalt));
    LoadPlan load = load_plan(std::move(requests));
    load.max_concurrency = 1;
    load.arrive_with_slots = true;
    load.show_progress = false;
    const RunRecord run = run_load(address_, load, interrupt_);
    if (run.interrupted) return {StatusCode::kCancelled, "interrupted in the warm-up"};
    if (run.failures.causes().empty()) return {};
    const FailureLog::Cause& cause = run.failures.causes().front();
    return Status::unavailable(
        fmt::format("the warm-up request failed: {}: {}", failure_name(cause.kind), cause.message),
        "the server has to answer one request before it can be measured; --num-warmups 0 measures "
        "all the same");
  }

  Result<Report> run_levels(const BaseUrl& url) {
    Report report = {.base_url = url.text(),
                     .endpoint = plan_.endpoint,
                     .model = format_.model,
                     .dataset = dataset_name(plan_.workload.dataset),
                     .prompts = describe_prompts(plan_.workload, source_, format_.chat),
                     .seed = plan_.workload.seed,
                     .objectives = plan_.objectives,
                     .levels = {}};
    const std::vector<LevelShape> shapes = level_shapes(plan_);
    for (std::size_t i = 0; i < shapes.size() && !interrupt_.interrupted(); ++i) {
      QUIRE_ASSIGN_OR_RETURN(Level level, run_level(shapes[i], i + 1));
      report.levels.push_back(std::move(level));
    }
    if (report.levels.empty()) return Status(StatusCode::kCancelled, "interrupted");
    return report;
  }

  Result<Level> run_level(const LevelShape& shape, std::uint64_t salt) const {
    const bool traced = plan_.workload.dataset == Dataset::kTrace;
    QUIRE_ASSIGN_OR_RETURN(auto requests,
                           make_requests(plan_.workload, lines_, format_, source_, salt));
    LoadPlan load = load_plan(std::move(requests));
    load.max_concurrency = shape.max_concurrency;
    if (traced) {
      for (std::size_t i = 0; i < load.requests.size(); ++i) {
        load.arrivals[i] = load.requests[i].timestamp;
      }
    } else {
      load.arrive_with_slots = std::isinf(shape.request_rate) && shape.max_concurrency;
      load.arrivals = draw_arrivals({.rate = shape.request_rate, .burstiness = plan_.burstiness},
                                    load.requests.size(), plan_.workload.seed);
    }
    Level level;
    level.run.max_concurrency = shape.max_concurrency;
    if (!traced) level.run.request_rate = shape.request_rate;
    load.label = level_name(level.run);
    RunRecord run = run_load(address_, load, interrupt_);
    run.request_rate = level.run.request_rate;
    level.summary = summarize(run, plan_.objectives);
    level.run = std::move(run);
    return level;
  }

  const MeasurementPlan& plan_;
  const InterruptWatcher& interrupt_;
  RequestFormat format_;
  PromptSource source_;
  std::vector<WorkloadLine> lines_;
  ServerAddress address_;
};

}  // namespace

Result<Report> measure(const MeasurementPlan& plan, const InterruptWatcher& interrupt) {
  return Measurement(plan, interrupt).run();
}

}  // namespace quire::bench
