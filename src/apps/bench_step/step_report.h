// What measured steps look like on paper: a table of all cases, one of each case's stages, JSON.
#pragma once

#include <optional>
#include <vector>

#include "apps/bench_step/breakdown.h"
#include "apps/bench_step/step_case.h"
#include "base/json.h"

namespace quire {

struct StepReport {
  StepCaseResult run;
  std::optional<Breakdown> breakdown;  // where the run was profiled
  std::int64_t output_thread_ns = 0;   // that thread's work while the steps of the breakdown ran
};

// Takes a run's profile apart. kResourceExhausted where not even one step's spans were kept.
Result<StepReport> make_report(StepCaseResult run);

void print_times(const std::vector<StepReport>& reports);
void print_breakdown(const StepReport& report);
json::object to_json(const StepReport& report, bool with_breakdown);

}  // namespace quire
