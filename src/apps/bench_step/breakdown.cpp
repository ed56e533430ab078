#include "apps/bench_step/breakdown.h"

#include <algorithm>

namespace quire {
namespace {

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
    for (std::uint64_t i = step.first; i <= number; ++i) add(spans_[i], i, step.start_ns);
  }

  Breakdown take() {
    std::ranges::stable_sort(entries_, {}, &Entry::first_after_ns);
    for (const Entry& entry : entries_) sum_.stages.push_back(entry.sum);
    return std::move(sum_);
  }

 private:
  struct Entry {
    StageSum sum;
    std::int64_t first_after_ns = 0;  // its first start after its step's
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
    StageSum& sum = entry_of(span, step_start_ns).sum;
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
};

}  // namespace

std::int64_t Breakdown::sum_of(StageKind kind) const {
  std::int64_t sum = 0;
  for (const StageSum& stage : stages) sum += stage.kind == kind ? stage.own_ns : 0;
  return sum;
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
