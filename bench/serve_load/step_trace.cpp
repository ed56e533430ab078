#include "serve_load/step_trace.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "sim/wrapped_executor.h"

namespace quire::load {

class StepTrace::Watcher final : public WrappedExecutor {
 public:
  Watcher(StepTrace& trace, std::unique_ptr<Executor> inner)
      : WrappedExecutor(std::move(inner)), trace_(trace) {}

  Status submit(const SchedulerOutput& plan) override {
    plans_.push_back(&plan);
    return WrappedExecutor::submit(plan);
  }
  Status collect(ModelRunnerOutput& result) override {
    QUIRE_RETURN_IF_ERROR(WrappedExecutor::collect(result));
    trace_.record(*plans_.front(), std::chrono::steady_clock::now());
    plans_.pop_front();
    return {};
  }

 private:
  StepTrace& trace_;
  std::deque<const SchedulerOutput*> plans_;  // of the steps in flight
};

std::vector<std::int32_t> StepTrace::prompt_of(std::int32_t key, std::size_t length) {
  std::vector<std::int32_t> ids(std::max<std::size_t>(length, 2), kFirstId);
  ids[0] = kFirstId + key / kBase;
  ids[1] = kFirstId + key % kBase;
  return ids;
}

std::unique_ptr<Executor> StepTrace::watch(std::unique_ptr<Executor> inner) {
  return std::make_unique<Watcher>(*this, std::move(inner));
}

std::vector<StepTrace::TimePoint> StepTrace::tokens_of(std::int32_t key) const {
  const std::lock_guard lock(mutex_);
  const auto found = tokens_.find(key);
  return found == tokens_.end() ? std::vector<TimePoint>() : found->second;
}

std::size_t StepTrace::num_steps() const {
  const std::lock_guard lock(mutex_);
  return num_steps_;
}

void StepTrace::record(const SchedulerOutput& plan, TimePoint end) {
  const std::lock_guard lock(mutex_);
  ++num_steps_;
  for (const NewRequestData& data : plan.new_requests) {
    const auto tokens = plan.tokens_of(data);
    if (tokens.size() < 2) continue;
    const std::int32_t key = (tokens[0] - kFirstId) * kBase + tokens[1] - kFirstId;
    // Known already: it resumes after a preemption.
    if (keys_.emplace(data.request_id, key).second) tokens_[key].clear();
  }
  for (const ScheduledRequest& scheduled : plan.scheduled) {
    const auto found = keys_.find(scheduled.request_id);
    if (scheduled.use == RowUse::kTokens && found != keys_.end())
      tokens_[found->second].push_back(end);
  }
}

}  // namespace quire::load
