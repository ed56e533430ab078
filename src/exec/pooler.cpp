#include "exec/pooler.h"

#include <cmath>
#include <span>

#include <fmt/format.h>

namespace quire {

Pooler::Pooler(std::int64_t max_num_seqs, std::int64_t hidden_size)
    : hidden_size_(static_cast<std::size_t>(hidden_size)),
      states_(static_cast<std::size_t>(max_num_seqs) * hidden_size_) {
  sums_.reserve(static_cast<std::size_t>(max_num_seqs),
                [this](Sum& sum) { sum.values.resize(hidden_size_); });
}

std::uint64_t Pooler::bytes(std::int64_t max_num_seqs, std::int64_t hidden_size) {
  const auto values = static_cast<std::uint64_t>(max_num_seqs * hidden_size);
  return values * (sizeof(double) + sizeof(float)) +
         static_cast<std::uint64_t>(max_num_seqs) * sizeof(Sum);
}

void Pooler::prepare(const SchedulerOutput& step) {
  for (const RequestId id : step.removed_request_ids) {
    if (sums_.find(id) != nullptr) sums_.erase(id);
  }
  for (const NewRequestData& data : step.new_requests) {
    if (data.pooling != Pooling::kNone) sums_.insert(data.request_id).num_states = 0;
  }
}

void Pooler::add(RequestId request_id, std::size_t row) {
  Sum& sum = *sums_.find(request_id);
  const auto state = std::span<const float>(states_).subspan(row * hidden_size_, hidden_size_);
  const bool first = sum.num_states++ == 0;
  for (std::size_t i = 0; i < hidden_size_; ++i) {
    const auto value = static_cast<double>(state[i]);
    sum.values[i] = first ? value : sum.values[i] + value;
  }
}

Status Pooler::give(const SchedulerOutput& step, ModelRunnerOutput& result) {
  for (const ScheduledRequest& scheduled : step.scheduled) {
    if (scheduled.use != RowUse::kState) continue;
    const Sum* sum = sums_.find(scheduled.request_id);
    if (sum == nullptr || sum->num_states == 0) {
      return Status::internal(
          fmt::format("request {} is to be pooled, and nothing was kept", scheduled.request_id));
    }
    result.pooled.push_back({.request_id = scheduled.request_id,
                             .first = result.hidden_states.size(),
                             .size = hidden_size_});
    for (const double value : sum->values) {
      if (!std::isfinite(value)) {
        return Status::bad_model(
            fmt::format("request {}: the model's hidden state is not finite", scheduled.request_id),
            "the weights may be damaged; fetch the model again");
      }
      result.hidden_states.push_back(
          static_cast<float>(value / static_cast<double>(sum->num_states)));
    }
  }
  return {};
}

}  // namespace quire
