#include "apps/bench_step/step_report.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "apps/statistics.h"

namespace quire {
namespace {

// Ids ascending.
std::vector<StepId> faster_half(const StepCaseResult& run) {
  std::vector<std::pair<double, StepId>> steps;
  for (std::size_t i = 0; i < run.step_ids.size(); ++i) {
    steps.emplace_back(run.step_s[i], run.step_ids[i]);
  }
  std::ranges::sort(steps);
  std::vector<StepId> ids;
  for (std::size_t i = 0; i < (steps.size() + 1) / 2; ++i) ids.push_back(steps[i].second);
  std::ranges::sort(ids);
  return ids;
}

double tokens_per_s(const StepCaseResult& run, const Statistics& times) {
  return static_cast<double>(run.shape.tokens_per_step()) / times.p50;
}

// A stage's work over its time, in units of 1e9; nothing where the work is not known.
std::string giga_per_s(std::uint64_t work, std::int64_t ns) {
  if (work == 0 || ns == 0) return "";
  return fmt::format("{:.1f}", static_cast<double>(work) / static_cast<double>(ns));
}

class BreakdownTable {
 public:
  explicit BreakdownTable(const Breakdown& breakdown) : breakdown_(breakdown) {}

  void print_stages() const {
    fmt::print("{:<30}{:>8}{:>12}{:>9}{:>12}{:>9}{:>8}{:>10}{:>9}\n", "stage", "calls", "mean us",
               "share", "typical us", "share", "GB/s", "GFLOP/s", "threads");
    for (const StageSum& stage : breakdown_.stages) {
      fmt::print("{:<30}{:>8.1f}{}{:>8}{:>10}{:>9.2f}\n", stage.name, per_step(stage.calls),
                 times(stage.own_ns, stage.typical_ns()),
                 giga_per_s(stage.cost.bytes, stage.typical_ns()),
                 giga_per_s(stage.cost.operations, stage.typical_ns()), stage.threads_busy());
    }
  }

  void print_sums() const {
    fmt::print("\n");
    constexpr std::array kKinds = {std::pair{StageKind::kBookkeeping, "bookkeeping"},
                                   std::pair{StageKind::kKernel, "kernels"},
                                   std::pair{StageKind::kSampling, "sampling"},
                                   std::pair{StageKind::kWait, "waiting for commands"}};
    for (const auto& [kind, name] : kKinds) {
      const std::int64_t ns = breakdown_.sum_of(kind);
      if (ns > 0) print_sum(name, ns, breakdown_.typical_sum_of(kind));
    }
    print_sum("in no stage", breakdown_.unaccounted_ns, breakdown_.typical_unaccounted_ns());
    print_sum("step", breakdown_.total_ns, breakdown_.typical_total_ns());
  }

 private:
  double per_step(std::int64_t sum) const {
    return static_cast<double>(sum) / static_cast<double>(breakdown_.num_steps);
  }
  static double percent(std::int64_t ns, std::int64_t total_ns) {
    return 100.0 * static_cast<double>(ns) / static_cast<double>(total_ns);
  }
  std::string times(std::int64_t ns, std::int64_t typical_ns) const {
    return fmt::format("{:>12.1f}{:>8.2f}%{:>12.1f}{:>8.2f}%", per_step(ns) / 1e3,
                       percent(ns, breakdown_.total_ns), per_step(typical_ns) / 1e3,
                       percent(typical_ns, breakdown_.typical_total_ns()));
  }
  void print_sum(std::string_view name, std::int64_t ns, std::int64_t typical_ns) const {
    fmt::print("{:<38}{}\n", name, times(ns, typical_ns));
  }

  const Breakdown& breakdown_;
};

json::object stage_json(const StageSum& stage, const Breakdown& breakdown) {
  const auto steps = static_cast<double>(breakdown.num_steps);
  const auto ns = static_cast<double>(stage.own_ns);
  const auto typical_ns = static_cast<double>(stage.typical_ns());
  json::object object = {{"stage", stage.name},
                         {"kind", stage_kind_name(stage.kind)},
                         {"calls_per_step", static_cast<double>(stage.calls) / steps},
                         {"s_per_step", ns / 1e9 / steps},
                         {"typical_s_per_step", typical_ns / 1e9 / steps},
                         {"share", ns / static_cast<double>(breakdown.total_ns)},
                         {"threads_busy", stage.threads_busy()}};
  if (stage.cost.bytes > 0 && typical_ns > 0) {
    object["bytes_per_s"] = static_cast<double>(stage.cost.bytes) * 1e9 / typical_ns;
  }
  if (stage.cost.operations > 0 && typical_ns > 0) {
    object["operations_per_s"] = static_cast<double>(stage.cost.operations) * 1e9 / typical_ns;
  }
  return object;
}

json::object breakdown_json(const StepReport& report) {
  const Breakdown& breakdown = report.faster;
  const double steps = static_cast<double>(breakdown.num_steps) * 1e9;
  const auto per_step = [steps](std::int64_t ns) { return static_cast<double>(ns) / steps; };
  json::array stages;
  for (const StageSum& stage : breakdown.stages) stages.push_back(stage_json(stage, breakdown));
  json::array device_stages;
  for (const StageSum& stage : report.device.stages) {
    device_stages.push_back(stage_json(stage, report.device));
  }
  json::object by_kind;
  json::object typical_by_kind;
  for (const StageKind kind :
       {StageKind::kBookkeeping, StageKind::kKernel, StageKind::kSampling, StageKind::kWait}) {
    by_kind[stage_kind_name(kind)] = per_step(breakdown.sum_of(kind));
    typical_by_kind[stage_kind_name(kind)] = per_step(breakdown.typical_sum_of(kind));
  }
  return {{"num_steps", breakdown.num_steps},
          {"s_per_step", per_step(breakdown.total_ns)},
          {"stages", std::move(stages)},
          {"s_per_step_by_kind", std::move(by_kind)},
          {"s_per_step_in_no_stage", per_step(breakdown.unaccounted_ns)},
          {"typical_s_per_step", per_step(breakdown.typical_total_ns())},
          {"typical_s_per_step_by_kind", std::move(typical_by_kind)},
          {"typical_s_per_step_in_no_stage", per_step(breakdown.typical_unaccounted_ns())},
          {"output_thread_s_per_step", per_step(report.output.total_ns)},
          {"device_stages", std::move(device_stages)}};
}

}  // namespace

Result<StepReport> make_report(StepCaseResult run) {
  StepReport report;
  if (run.profile != nullptr) {
    const std::vector<StepId> faster = faster_half(run);
    report.faster =
        join(break_down(run.profile->engine, faster), break_down(run.profile->executor, faster));
    if (report.faster.num_steps == 0) {
      return Status::resource_exhausted(
          fmt::format("{}: a step has more spans than the {} that are kept", run.shape.name(),
                      run.profile->engine.num_ended() - run.profile->engine.oldest()),
          "measure without --breakdown and --trace");
    }
    report.output = break_down(run.profile->output, faster);
    report.device = break_down(run.profile->device, run.step_ids);
  }
  report.run = std::move(run);
  return report;
}

void print_times(const std::vector<StepReport>& reports) {
  const EngineInfo& info = reports.front().run.info;
  fmt::print("{}, {} threads, level {}, activations {}, KV cache {}\n\n", info.model_name,
             info.threads, info.isa_level, info.activation, info.kv_cache_dtype);
  fmt::print("{:<16}{:>8}{:>10}{:>15}{:>14}{:>12}{:>12}\n", "step", "steps", "context",
             "tokens a step", "median ms", "p90 ms", "tokens/s");
  for (const StepReport& report : reports) {
    const StepCaseResult& run = report.run;
    const Statistics times = statistics(run.step_s);
    const bool decode = run.shape.kind == StepCase::Kind::kDecode;
    fmt::print("{:<16}{:>8}{:>10}{:>15}{:>14.3f}{:>12.3f}{:>12.1f}\n", run.shape.name(),
               run.step_s.size(), decode ? fmt::format("{:.0f}", run.context_mean) : "",
               run.shape.tokens_per_step(), times.p50 * 1e3, times.p90 * 1e3,
               tokens_per_s(run, times));
  }
}

void print_breakdown(const StepReport& report) {
  const Breakdown& breakdown = report.faster;
  fmt::print("\n{}: mean of the {} faster of {} steps\n\n", report.run.shape.name(),
             breakdown.num_steps, report.run.step_ids.size());
  const BreakdownTable table(breakdown);
  table.print_stages();
  table.print_sums();
  fmt::print(
      "{:<38}{:>12.1f}\n", "output thread, beside it",
      static_cast<double>(report.output.total_ns) / 1e3 / static_cast<double>(breakdown.num_steps));
  if (report.device.num_steps == 0) return;
  fmt::print("\n{}: kernels of {} steps, each timed by itself\n\n", report.run.shape.name(),
             report.device.num_steps);
  const BreakdownTable device(report.device);
  device.print_stages();
  device.print_sums();
}

json::object to_json(const StepReport& report, bool with_breakdown) {
  const StepCaseResult& run = report.run;
  const bool decode = run.shape.kind == StepCase::Kind::kDecode;
  const Statistics times = statistics(run.step_s);
  json::object object = {{"kind", decode ? "decode" : "prefill"},
                         {"steps", run.step_s.size()},
                         {"tokens_per_step", run.shape.tokens_per_step()},
                         {"step_s", quire::to_json(times)},
                         {"tokens_per_s", tokens_per_s(run, times)}};
  if (decode) {
    object["batch_size"] = run.shape.size;
    object["context_len"] = run.shape.context_len;
    object["context_mean"] = run.context_mean;
  } else {
    object["prefill_len"] = run.shape.size;
  }
  if (with_breakdown) object["breakdown"] = breakdown_json(report);
  return object;
}

}  // namespace quire
