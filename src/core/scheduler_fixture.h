// What the tests of the scheduler share: small settings, requests, and a fixture that steps.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/scheduler.h"

namespace quire {

inline constexpr TokenId kEos = 2;

inline SchedulerConfig small_config() {
  SchedulerConfig config;
  config.max_num_seqs = 4;
  config.max_num_batched_tokens = 8;
  config.max_model_len = 32;
  config.block_size = 4;
  config.num_blocks = 16;
  config.max_queued = 8;
  config.enable_prefix_caching = false;  // see scheduler_sharing_test.cpp
  config.eos_token_ids = {kEos};
  return config;
}

inline AddRequest request_of(RequestId id, std::int32_t num_prompt_tokens,
                             std::int64_t max_tokens = 4) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  return {id, std::vector<TokenId>(static_cast<std::size_t>(num_prompt_tokens), 9),
          std::make_shared<const SamplingParams>(params), 0};
}

// A scheduler whose steps all sample `token`; checks the invariants after every call.
class SchedulerTest : public testing::Test {
 protected:
  void make(const SchedulerConfig& config) {
    ASSERT_EQ(config.validate().message(), "");
    scheduler_.emplace(config);
  }
  void add(const AddRequest& request) {
    const Status status = scheduler_->add(request, now_);
    EXPECT_TRUE(status.ok()) << status.message();
    check();
  }
  SchedulerOutput schedule() {
    SchedulerOutput plan;
    const Status status = scheduler_->schedule(now_, plan);
    EXPECT_TRUE(status.ok()) << status.message();
    check();
    return plan;
  }
  std::vector<RequestStepOutput> update(const SchedulerOutput& plan, TokenId token = 5) {
    now_ += std::chrono::milliseconds(1);
    ModelRunnerOutput result;
    result.step_id = plan.step_id;
    for (const ScheduledRequest& each : plan.scheduled) {
      if (each.use == RowUse::kState) {
        result.pooled.push_back(
            {.request_id = each.request_id, .first = result.hidden_states.size(), .size = 1});
        result.hidden_states.push_back(static_cast<float>(each.request_id));
      }
      if (each.use != RowUse::kTokens) continue;
      result.sampled.push_back(
          {.request_id = each.request_id, .token_id = token, .logprob = -0.5F});
    }
    std::vector<RequestStepOutput> outputs;
    const Status status = scheduler_->update(result, now_, outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    check();
    return outputs;
  }
  std::vector<RequestStepOutput> step(TokenId token = 5) { return update(schedule(), token); }
  SchedulerOutput step_plan() {
    SchedulerOutput plan = schedule();
    update(plan);
    return plan;
  }
  std::unique_ptr<const Request> abort(RequestId id) {
    auto request = scheduler_->abort(id, now_);
    check();
    return request;
  }
  void check() { EXPECT_EQ(scheduler_->check_invariants().message(), ""); }

  std::optional<Scheduler> scheduler_;
  Instant now_{};
};

// "id:computed+scheduled" for each scheduled request, with "!" where a token is sampled and "*"
// where the hidden state is wanted.
inline std::vector<std::string> shares(const SchedulerOutput& plan) {
  std::vector<std::string> result;
  for (const ScheduledRequest& each : plan.scheduled) {
    result.push_back(std::to_string(each.request_id) + ":" +
                     std::to_string(each.num_computed_tokens) + "+" +
                     std::to_string(each.num_scheduled_tokens) +
                     (each.use == RowUse::kTokens  ? "!"
                      : each.use == RowUse::kState ? "*"
                                                   : ""));
  }
  return result;
}

}  // namespace quire
