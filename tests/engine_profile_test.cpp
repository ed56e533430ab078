// An engine whose time is recorded gives the same tokens, and what is recorded fits its steps.
#include <map>

#include <gtest/gtest.h>

#include "engine/api.h"
#include "support/collector.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

constexpr std::size_t kProfiledRequests = 5;

// Greedy and random requests of different lengths, in more than one chunk.
std::vector<std::vector<Output>> run_requests(EngineProfile* profile, std::int64_t& num_steps) {
  EngineArgs args;
  args.model = tiny_llama("tiny_llama_q4_1.gguf");
  args.threads = 2;
  args.max_num_batched_tokens = 16;
  num_steps = 0;
  auto engine = Engine::create(args, {.planned = {},
                                      .loaded = {},
                                      .stepped = [&](const StepRecord&) { ++num_steps; },
                                      .profile = profile});
  EXPECT_TRUE(engine.ok()) << engine.status().to_string();
  if (!engine.ok()) return {};
  Collector collector(kProfiledRequests);
  for (std::size_t i = 0; i < kProfiledRequests; ++i) {
    GenerateRequest request;
    for (TokenId token = 0; token < 30; ++token) {
      request.prompt_token_ids.push_back(3 + token * static_cast<TokenId>(i + 1));
    }
    request.params.max_tokens = 10 + static_cast<std::int64_t>(i);
    request.params.ignore_eos = true;
    request.params.seed = i;
    if (i % 2 == 0) request.params.temperature = 0;
    if (i == 1) request.params.logprobs = 3;
    if (i == 2) request.params.prompt_logprobs = 1;
    EXPECT_TRUE((*engine)->submit(std::move(request), collector.sink(i)).ok());
  }
  collector.wait_for(kProfiledRequests);
  engine->reset();
  return collector.take();
}

TEST(EngineProfile, TheTokensAreThoseWithoutIt) {
  std::int64_t num_steps = 0;
  const auto plain = run_requests(nullptr, num_steps);
  EngineProfile profile(1 << 14);
  EXPECT_EQ(run_requests(&profile, num_steps), plain);
  ASSERT_EQ(plain.size(), kProfiledRequests);
  EXPECT_EQ(plain[4][0].token_ids.size(), 14U);
}

// How often each stage comes inside each step, which is a span of that name.
std::map<StepId, std::map<std::string_view, int>> calls_of_steps(const SpanRecorder& spans,
                                                                 std::string_view name) {
  std::map<StepId, std::map<std::string_view, int>> steps;
  EXPECT_EQ(spans.oldest(), 0U);
  for (std::uint64_t number = 0; number < spans.num_ended(); ++number) {
    const Span& step = spans[number];
    if (step.id == 0) continue;
    EXPECT_EQ(step.stage->name, name);
    auto& calls = steps[step.id];
    for (std::uint64_t inner = step.first; inner < number; ++inner) {
      const Span& span = spans[inner];
      EXPECT_GE(span.start_ns, step.start_ns);
      EXPECT_LE(span.end_ns, step.end_ns);
      ++calls[span.stage->name];
    }
  }
  return steps;
}

TEST(EngineProfile, EachStepIsThereWithAllThatIsInIt) {
  std::int64_t num_steps = 0;
  EngineProfile profile(1 << 16);
  run_requests(&profile, num_steps);
  const auto engine = calls_of_steps(profile.engine, "step");
  const auto executor = calls_of_steps(profile.executor, "compute");
  EXPECT_EQ(std::ssize(engine), num_steps);
  EXPECT_EQ(std::ssize(executor), num_steps);
  std::int64_t num_computed = 0;
  for (const auto& [id, calls] : engine) {
    for (const char* once : {"take commands", "apply commands", "schedule", "execute", "update",
                             "pass on output", "publish stats"}) {
      EXPECT_EQ(calls.at(once), 1) << once;
    }
  }
  for (auto [id, calls] : executor) {
    if (calls["forward"] == 0) continue;  // a step that only takes leave of requests
    ++num_computed;
    for (const char* once : {"prepare", "forward", "embedding", "wait for masks"}) {
      EXPECT_EQ(calls[once], 1) << once;
    }
    EXPECT_EQ(calls["attention"], 2);  // layers
    EXPECT_EQ(calls["down projection"], 2);
    EXPECT_EQ(calls["attention output projection"], 2);
    EXPECT_EQ(calls["matmul"], 0);  // every product has a name
  }
  EXPECT_GT(num_computed, 14);
  EXPECT_GT(profile.output.num_ended(), 0U);
  EXPECT_EQ(profile.output[0].stage->name, "hand out");
}

}  // namespace
}  // namespace quire::test
