// How far the results of steps may run ahead of the sinks that take them.
#include "engine/output_processor.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "load/model_bundle.h"

namespace quire {
namespace {

constexpr RequestId kRequest = 1;

const Tokenizer& tokenizer() {
  static const TextBundle text = [] {
    auto opened = open_text(QUIRE_SOURCE_DIR "/tests/data/tiny_llama/hf");
    EXPECT_TRUE(opened.ok()) << opened.status().to_string();
    return *std::move(opened);
  }();
  return *text.tokenizer;
}

// A sink that takes nothing until it is opened.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

void fill(StepResult& step, TokenId token, std::size_t num_top) {
  step.outputs.clear();
  step.result.clear();
  step.result.sampled.push_back({.request_id = kRequest,
                                 .token_id = token,
                                 .num_top_logprobs = static_cast<std::int32_t>(num_top)});
  step.result.top_logprobs.resize(num_top);
  step.outputs.push_back(
      {.request_id = kRequest, .first_sampled = 0, .num_sampled = 1, .finished = nullptr});
}

struct Outcome {
  std::int64_t pushed_while_blocked = 0;
  std::int64_t received = 0;
  bool in_order = true;
};

// An engine that pushes `num_steps` steps while its sink blocks, until it gets no further.
Outcome push_all(std::int64_t num_steps, std::size_t num_top, const StepResultLimits& limits) {
  Gate gate;
  std::atomic<std::int64_t> pushed = 0;
  Outcome result;
  OutputProcessor outputs(
      tokenizer(), [](RequestId) {}, nullptr, limits);
  const std::vector<TokenId> prompt = {1, 2, 3};
  outputs.add(kRequest, prompt, {}, [&](const RequestOutput& output) {
    gate.pass();
    if (output.finished) return;
    result.in_order = result.in_order && output.token_ids.at(0) == 100 + result.received % 100;
    ++result.received;
  });
  std::thread engine([&] {
    StepResult step;
    for (std::int64_t i = 0; i < num_steps; ++i) {
      fill(step, static_cast<TokenId>(100 + i % 100), num_top);
      outputs.push(step);
      ++pushed;
    }
  });
  // It comes to a stop, or has pushed everything.
  for (std::int64_t before = -1; pushed != before && pushed < num_steps;) {
    before = pushed;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  result.pushed_while_blocked = pushed;
  gate.open();
  engine.join();
  outputs.push_all_failed({StatusCode::kCancelled, "the test is over"});
  outputs.stop();
  return result;
}

TEST(OutputProcessor, ASinkThatBlocksHoldsUpTheEngineAndNotItsMemory) {
  constexpr std::int64_t kSteps = 1000;
  const Outcome result = push_all(kSteps, 0, {});
  EXPECT_LE(result.pushed_while_blocked,
            static_cast<std::int64_t>(OutputProcessor::kMaxQueuedSteps));
  EXPECT_EQ(result.received, kSteps);
  EXPECT_TRUE(result.in_order);
}

TEST(OutputProcessor, ResultsThatWaitAreBoundedInBytes) {
  const StepResultLimits limits = {
      .max_num_seqs = 1, .max_num_batched_tokens = 1, .max_logprobs = 1000};
  const Outcome result = push_all(100, 2000, limits);
  EXPECT_LE(result.pushed_while_blocked, 5);
  EXPECT_EQ(result.received, 100);
}

TEST(OutputProcessor, AStepLargerThanTheBoundWaitsAlone) {
  const StepResultLimits limits = {
      .max_num_seqs = 1, .max_num_batched_tokens = 1, .max_logprobs = 1};
  const Outcome result = push_all(20, 2000, limits);
  EXPECT_LE(result.pushed_while_blocked, 1);
  EXPECT_EQ(result.received, 20);
}

TEST(OutputProcessor, WhatALargeStepLeavesBehindIsFreed) {
  const StepResultLimits limits = {
      .max_num_seqs = 1, .max_num_batched_tokens = 1, .max_logprobs = 1};
  std::atomic<int> received = 0;  // outlives the thread that counts
  OutputProcessor outputs(
      tokenizer(), [](RequestId) {}, nullptr, limits);
  const std::vector<TokenId> prompt = {1};
  outputs.add(kRequest, prompt, {}, [&](const RequestOutput&) { ++received; });
  StepResult step;
  for (int i = 0; i < 40; ++i) {
    step = StepResult();
    fill(step, 5, 100'000);
    outputs.push(step);
  }
  while (received < 40) std::this_thread::yield();
  // All that it has kept comes back for new steps.
  std::size_t kept = 0;
  for (int i = 0; i < 80; ++i) {
    step = StepResult();
    fill(step, 5, 0);
    outputs.push(step);
    if (step.capacity_bytes() > 100'000) ++kept;
  }
  EXPECT_LE(kept, 2U);  // one, and one that was still being handed out
  outputs.push_all_failed({StatusCode::kCancelled, "the test is over"});
}

TEST(OutputProcessor, TheBoundGrowsWithTheStepsUpToALimit) {
  const StepResultLimits small = {.max_num_seqs = 1, .max_num_batched_tokens = 1};
  EXPECT_EQ(small.queue_bytes(), 4 * small.step_bytes());
  EXPECT_EQ(small.total_bytes(), 9 * small.step_bytes());
  const StepResultLimits large = {
      .max_num_seqs = 4096, .max_num_batched_tokens = 65'536, .max_logprobs = 100};
  EXPECT_EQ(large.queue_bytes(), std::size_t{32} << 20);
  EXPECT_EQ(large.total_bytes(), 3 * large.step_bytes());
}

}  // namespace
}  // namespace quire
