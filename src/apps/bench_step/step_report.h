// What measured steps look like on paper: a table of all cases, one of each case's stages, JSON.
#pragma once

#include <vector>

#include "apps/bench_step/breakdown.h"
#include "apps/bench_step/step_case.h"
#include "base/json.h"

namespace quire {

struct StepReport {
  StepCaseResult run;
  // Where the run was profiled: the faster half of its steps, which what else the machine does has
  // disturbed least, and what the output thread did with the results of that half.
  Breakdown faster;
  Breakdown output;
  Breakdown device;  // of those steps whose ops a GPU has timed; their times are in no other
};

// Takes a run's profile apart. kResourceExhausted where not even one step's spans were kept.
Result<StepReport> make_report(StepCaseResult run);

void print_times(const std::vector<StepReport>& reports);
void print_breakdown(const StepReport& report);
json::object to_json(const StepReport& report, bool with_breakdown);

}  // namespace quire
