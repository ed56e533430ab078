#include "apps/bench_step/breakdown.h"

#include <algorithm>

namespace quire {
namespace {

// The middle one of `values`, which get another order.
std::int64_t median(std::vector<std::int64_t>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Adds up the stages of steps.
class Adder {
 public:
  explicit Adder(const SpanRecorder& spans) : spans_(spans) {}

  // The step that is span `number`, with all that is inside it.
  void add_step(std::uint64_t number) {
    const Span& step = spans_[number];
    if (sum_.num_steps == 0) sum_.begin_ns = step.start_ns;
    ++sum_.num_steps;
    sum_.total_ns += step.duration_ns();
    sum_.end_ns = step.end_ns;
    const std::int64_t unaccounted_before = sum_.unaccounted_ns;
    for (std::uint64_t i = step.first; i <= number; ++i) add(spans_[i], i, step.start_ns);
    unaccounted_ns_.push_back(sum_.unaccounted_ns - unaccounted_before);
  }

  Breakdown take() {
    std::ranges::stable_sort(entries_, {}, &Entry::first_after_ns);
    for (Entry& entry : entries_) {
      entry.sum.median_call_ns = median(entry.calls_ns);
      sum_.stages.push_back(entry.sum);
    }
    sum_.median_unaccounted_ns = median(unaccounted_ns_);
    return std::move(sum_);
  }

 private:
  struct Entry {
    StageSum sum;
    std::int64_t first_after_ns = 0;  // its first start after its step's
    std::vector<std::int64_t> calls_ns = {};
  };

  void add(const Span& span, std::uint64_t number, std::int64_t step_start_ns) {
    std::int64_t own_ns = span.duration_ns();
    std::int64_t others_ns = span.others_ns;
    // The spans directly inside it, from the last back; those inside them are jumped over.
    for (std::uint64_t next = number; next > span.first; next = spans_[next - 1].first) {
      own_ns -= spans_[next - 1].duration_ns();
      others_ns -= spans_[next - 1].others_ns;
    }
    if (span.stage->kind == StageKind::kWhole) {
      sum_.unaccounted_ns += own_ns;
      return;
    }
    Entry& entry = entry_of(span, step_start_ns);
    entry.calls_ns.push_back(own_ns);
    StageSum& sum = entry.sum;
    ++sum.calls;
    sum.own_ns += own_ns;
    sum.others_ns += others_ns;
    sum.cost.bytes += span.cost.bytes;
    sum.cost.operations += span.cost.operations;
  }

  Entry& entry_of(const Span& span, std::int64_t step_start_ns) {
    const auto found = std::ranges::find(entries_, span.stage->name,
                                         [](const Entry& entry) { return entry.sum.name; });
    if (found != entries_.end()) return *found;
    entries_.push_back({.sum = {.name = span.stage->name, .kind = span.stage->kind},
                        .first_after_ns = span.start_ns - step_start_ns});
    return entries_.back();
  }

  const SpanRecorder& spans_;
  Breakdown sum_;
  std::vector<Entry> entries_;
  std::vector<std::int64_t> unaccounted_ns_;  // of each step
};

}  // namespace

std::int64_t Breakdown::sum_of(StageKind kind) const {
  std::int64_t sum = 0;
  for (const StageSum& stage : stages) sum += stage.kind == kind ? stage.own_ns : 0;
  return sum;
}

std::int64_t Breakdown::typical_sum_of(StageKind kind) const {
  std::int64_t sum = 0;
  for (const StageSum& stage : stages) sum += stage.kind == kind ? stage.typical_ns() : 0;
  return sum;
}

std::int64_t Breakdown::typical_total_ns() const {
  std::int64_t sum = typical_unaccounted_ns();
  for (const StageSum& stage : stages) sum += stage.typical_ns();
  return sum;
}

Breakdown join(Breakdown waiting, const Breakdown& working) {
  if (working.num_steps == 0) return waiting;
  waiting.unaccounted_ns += working.unaccounted_ns - working.total_ns;
  const std::int64_t typical_work = working.typical_total_ns() / working.num_steps;
  waiting.median_unaccounted_ns = std::max<std::int64_t>(
      waiting.median_unaccounted_ns + working.median_unaccounted_ns - typical_work, 0);
  waiting.stages.insert(waiting.stages.end(), working.stages.begin(), working.stages.end());
  return waiting;
}

Breakdown break_down(const SpanRecorder& spans, std::span<const StepId> step_ids) {
  Adder adder(spans);
  for (std::uint64_t number = spans.oldest(); number < spans.num_ended(); ++number) {
    const Span& span = spans[number];
    const bool complete = span.first >= spans.oldest();
    if (complete && span.id != 0 && std::ranges::binary_search(step_ids, span.id)) {
      adder.add_step(number);
    }
  }
  return adder.take();
}

}  // namespace quire
