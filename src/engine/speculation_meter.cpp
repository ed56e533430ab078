#include "engine/speculation_meter.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

Duration part_of(Duration time, double part) {
  return Duration(std::llround(static_cast<double>(time.count()) * part));
}

double ratio(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

// Of a step that computed a row for whoever has seen it; `more_steps` would have given what guesses
// gave.
void compare(const SpeculatedStep& step, bool drafted, double more_steps, SpeculationTimes& times) {
  if (!step.known) return;
  times.taken += step.before + step.computing + step.after;
  times.plain += part_of(step.computing, step.without_drafts + more_steps * step.further_step);
  times.num_compared += drafted ? 1 : 0;
}

}  // namespace

void SpeculationMeter::add(const SchedulerOutput& plan, std::span<const RequestStepOutput> outputs,
                           const SpeculatedStep& step, const ReportOf& report_of) {
  const Duration drafting = step.before + step.after;
  const Duration draft_rows = part_of(step.computing, 1 - step.without_drafts);
  const auto num_drafts = std::ssize(plan.draft_token_ids);
  times_.draft += drafting;
  if (step.num_rows == 0) {
    times_.taken += drafting;
    return;
  }
  if (num_drafts > 0) {
    times_.verify += step.computing;
    times_.draft_rows += draft_rows;
  }
  std::int64_t all_accepted = 0;
  auto output = outputs.begin();
  for (const ScheduledRequest& each : plan.scheduled) {
    if (each.use != RowUse::kTokens || each.num_scheduled_tokens - each.num_drafts != 1) continue;
    const auto found =
        std::ranges::find(output, outputs.end(), each.request_id, &RequestStepOutput::request_id);
    if (found == outputs.end()) continue;
    output = found + 1;
    const std::int32_t num_accepted = std::max(found->num_sampled - 1, 0);
    all_accepted += num_accepted;
    SpeculationReport* const report = report_of(each.request_id);
    if (report == nullptr) continue;
    compare(step, num_drafts > 0, num_accepted, report->times);
    if (each.num_drafts == 0) continue;
    ++report->num_steps;
    report->num_accepted += num_accepted;
    for (std::int32_t i = 0; i < num_accepted; ++i) {
      ++report->accepted_at[static_cast<std::size_t>(i)];
    }
    report->times.draft += part_of(drafting, ratio(each.num_drafts, num_drafts));
    report->times.draft_rows += part_of(draft_rows, ratio(each.num_drafts, num_drafts));
    report->times.verify +=
        part_of(step.computing, ratio(each.num_scheduled_tokens, plan.total_num_scheduled_tokens));
  }
  compare(step, num_drafts > 0, ratio(all_accepted, step.num_rows), times_);
}

}  // namespace quire
