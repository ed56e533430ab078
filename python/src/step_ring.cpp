#include "step_ring.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "apps/step_trace.h"
#include "apps/timeline_page.h"

namespace quire::python {
namespace {

StepTrace trace_of(const auto& steps, std::int32_t num_slots) {
  StepTrace trace(num_slots);
  for (const auto& step : steps) {
    trace.add({.step_id = step.step_id,
               .start = step.start,
               .end = step.end,
               .shares = std::span<const StepShare>(step.shares)});
  }
  return trace;
}

}  // namespace

void StepRing::add(const StepRecord& step) {
  const std::lock_guard lock(mutex_);
  steps_.push_back({step.step_id, step.start, step.end, {step.shares.begin(), step.shares.end()}});
  num_rows_ += step.shares.size();
  while (steps_.size() > kMaxSteps || (num_rows_ > kMaxRows && steps_.size() > 1)) {
    num_rows_ -= steps_.front().shares.size();
    steps_.pop_front();
  }
}

std::deque<StepRing::Step> StepRing::copy() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

json::object StepRing::to_json(std::int32_t num_slots) const {
  json::array steps;
  const StepTrace trace = trace_of(copy(), num_slots);
  for (const TracedStep& step : trace.steps()) {
    json::array rows;
    for (const SlotUse& row : step.rows) {
      rows.push_back({{"slot", row.slot},
                      {"request", row.request},
                      {"num_tokens", row.num_tokens},
                      {"samples", row.samples},
                      {"wanted", row.wanted}});
    }
    steps.push_back({{"start_s", step.start_s}, {"end_s", step.end_s}, {"rows", std::move(rows)}});
  }
  return {{"slots", num_slots}, {"steps", std::move(steps)}};
}

std::string StepRing::to_html(std::int32_t num_slots, const std::string& name) const {
  const StepTrace trace = trace_of(copy(), num_slots);
  const std::array<TimelineRun, 1> runs = {
      TimelineRun{.name = name,
                  .caption = fmt::format("the last {} steps", trace.steps().size()),
                  .trace = &trace}};
  return timeline_page(runs);
}

}  // namespace quire::python
