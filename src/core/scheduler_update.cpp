// What a step gave: whether it is the result of the plan, and what becomes of it.
#include <fmt/format.h>

#include "core/scheduler.h"

namespace quire {

Status Scheduler::update(const ModelRunnerOutput& output, Instant now,
                         std::vector<RequestStepOutput>& outputs) {
  QUIRE_RETURN_IF_ERROR(check_result(output));
  outputs.clear();
  std::int32_t next_sampled = 0;
  std::int32_t next_pooled = 0;
  step_in_flight_ = 0;
  for (const InFlight& each : in_flight_) {
    const std::int32_t sampled = each.use == RowUse::kTokens ? next_sampled++ : -1;
    const std::int32_t pooled = each.use == RowUse::kState ? next_pooled++ : -1;
    if (each.request == nullptr) continue;
    Request& request = *each.request;
    const Request::Computed computed = request.complete(each.num_scheduled_tokens);
    counters_.prompt_tokens_computed += computed.num_first_prompt;
    counters_.output_tokens_computed += computed.num_first_output;
    counters_.tokens_recomputed += computed.num_again;
    kv_.commit(request.id(), request.token_ids(), request.num_computed_tokens());
    if (each.use == RowUse::kNothing) continue;
    RequestStepOutput& given = outputs.emplace_back();
    given.request_id = request.id();
    given.sampled_index = sampled;
    given.pooled_index = pooled;
    if (each.use == RowUse::kState) {
      request.pool(now);
    } else {
      const SampledToken& token = output.sampled[static_cast<std::size_t>(sampled)];
      given.token_id = token.token_id;
      given.logprob = token.logprob;
      request.append_output(token.token_id, now);
      ++counters_.output_tokens_sampled;
    }
    if (!request.finished()) continue;
    ++counters_.num_finished;
    given.finished = take(request, batch_.retains() && !request.pooling());
  }
  in_flight_.clear();
  if (running_.empty()) drop_retained_rows(0);
  return {};
}

Status Scheduler::check_result(const ModelRunnerOutput& output) const {
  if (step_in_flight_ == 0 || output.step_id != step_in_flight_) {
    return Status::internal(fmt::format("got the result of step {}, but the step in flight is {}",
                                        output.step_id, step_in_flight_));
  }
  QUIRE_RETURN_IF_ERROR(check_sampled(output));
  return check_pooled(output);
}

Status Scheduler::check_sampled(const ModelRunnerOutput& output) const {
  std::size_t num_expected = 0;
  for (const InFlight& each : in_flight_) {
    if (each.use != RowUse::kTokens) continue;
    if (num_expected == output.sampled.size()) {
      return Status::internal(fmt::format("step {} sampled {} tokens: request {} has none",
                                          output.step_id, num_expected, each.request_id));
    }
    const SampledToken& token = output.sampled[num_expected++];
    if (token.request_id != each.request_id || token.token_id < 0) {
      return Status::internal(
          fmt::format("step {} sampled token {} for request {} where request {} was to come",
                      output.step_id, token.token_id, token.request_id, each.request_id));
    }
  }
  if (num_expected != output.sampled.size()) {
    return Status::internal(fmt::format("step {} sampled {} tokens, {} were planned",
                                        output.step_id, output.sampled.size(), num_expected));
  }
  return {};
}

Status Scheduler::check_pooled(const ModelRunnerOutput& output) const {
  auto pooled = output.pooled.begin();
  for (const InFlight& each : in_flight_) {
    if (each.use != RowUse::kState) continue;
    if (pooled == output.pooled.end() || pooled->request_id != each.request_id ||
        pooled->size > output.hidden_states.size() ||
        pooled->first > output.hidden_states.size() - pooled->size) {
      return Status::internal(fmt::format("step {} gives no hidden state for request {}",
                                          output.step_id, each.request_id));
    }
    ++pooled;
  }
  if (pooled != output.pooled.end()) {
    return Status::internal(fmt::format("step {} gives a hidden state for request {} unasked",
                                        output.step_id, pooled->request_id));
  }
  return {};
}

}  // namespace quire
