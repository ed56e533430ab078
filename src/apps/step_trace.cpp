#include "apps/step_trace.h"

#include <algorithm>

namespace quire {
namespace {

// Least squares: time = base + per_token * tokens.
struct Line {
  double base = 0;
  double per_token = 0;
};

std::int64_t tokens_of(const TracedStep& step, bool wanted_only) {
  std::int64_t tokens = 0;
  for (const SlotUse& row : step.rows) {
    if (row.wanted || !wanted_only) tokens += row.num_tokens;
  }
  return tokens;
}

Line fit(const std::vector<TracedStep>& steps) {
  const auto count = static_cast<double>(steps.size());
  double sum_x = 0;
  double sum_y = 0;
  double sum_xx = 0;
  double sum_xy = 0;
  for (const TracedStep& step : steps) {
    const auto x = static_cast<double>(tokens_of(step, false));
    const double y = step.end_s - step.start_s;
    sum_x += x;
    sum_y += y;
    sum_xx += x * x;
    sum_xy += x * y;
  }
  const double spread = count * sum_xx - sum_x * sum_x;
  if (spread <= 0) return {.base = sum_y / count, .per_token = 0};
  const double slope = (count * sum_xy - sum_x * sum_y) / spread;
  return {.base = (sum_y - slope * sum_x) / count, .per_token = slope};
}

}  // namespace

void StepTrace::add(const StepRecord& record) {
  if (steps_.empty()) origin_ = record.start;
  TracedStep step;
  step.start_s = to_seconds(record.start - origin_);
  step.end_s = to_seconds(record.end - origin_);

  const auto holders = slots_.assign(record.shares);
  for (std::size_t i = 0; i < holders.size(); ++i) {
    const StepShare& share = record.shares[i];
    step.rows.push_back({holders[i].slot, holders[i].arrival, share.num_tokens,
                         share.use == RowUse::kTokens, share.wanted});
  }
  steps_.push_back(std::move(step));
}

void StepTrace::clear() { *this = StepTrace(num_slots_); }

TraceSummary StepTrace::summary() const {
  TraceSummary summary;
  if (steps_.empty()) return summary;
  summary.num_steps = std::ssize(steps_);
  const Line line = fit(steps_);
  for (const TracedStep& step : steps_) {
    const std::int64_t computed = tokens_of(step, false);
    const std::int64_t wanted = tokens_of(step, true);
    summary.tokens_computed += computed;
    summary.tokens_discarded += computed - wanted;
    summary.outputs_wanted +=
        std::count_if(step.rows.begin(), step.rows.end(),
                      [](const auto& row) { return row.samples && row.wanted; });
    const double time = step.end_s - step.start_s;
    summary.busy_s += time;
    summary.busy_without_discarded_s +=
        time - std::max(line.per_token, 0.0) * static_cast<double>(computed - wanted);
  }
  summary.slot_occupancy = static_cast<double>(summary.outputs_wanted) /
                           (static_cast<double>(summary.num_steps) * num_slots_);
  return summary;
}

}  // namespace quire
