// Adds up what steps with guesses took and gave (engine/speculation_report.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/scheduler.h"
#include "core/step.h"
#include "engine/speculation_report.h"

namespace quire {

// What a step took, by the names of engine/speculation_report.h.
struct SpeculatedStep {
  Duration computing{};       // t - g
  Duration before{};          // g
  Duration after{};           // c
  std::int64_t num_rows = 0;  // B
  double without_drafts = 1;  // T(B) / T(B + m), with the step's prompts in both; at most 1
  double further_step = 1;    // T(B) without prompts, divided by T(B + m) with them
  bool known = true;          // these two
};

class SpeculationMeter {
 public:
  // The report of an output that is followed; null of others.
  using ReportOf = std::function<SpeculationReport*(RequestId output_id)>;

  // The outputs are those that the step's result gave, in the plan's order.
  void add(const SchedulerOutput& plan, std::span<const RequestStepOutput> outputs,
           const SpeculatedStep& step, const ReportOf& report_of);

  const SpeculationTimes& times() const { return times_; }

 private:
  SpeculationTimes times_;
};

}  // namespace quire
