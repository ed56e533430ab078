#include "support/many_requests.h"

#include <bit>
#include <cstddef>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "serve/models/test_held_engine.h"

namespace quire::test {
namespace {

constexpr std::size_t kNumRequests = 14;
constexpr std::size_t kNumEmbeddings = 3;

// Each request asks for something else, so that every op is used.
GenerateRequest request_of(std::size_t i, std::int64_t vocab_size) {
  GenerateRequest request;
  for (std::size_t p = 0; p < 7 + i * 5 % 37; ++p) {
    const std::size_t stream = p < 24 && i % 2 == 0 ? 0 : i + 1;  // some begin alike
    request.prompt_token_ids.push_back(static_cast<TokenId>((stream * 7919 + p * 104729 + 13) %
                                                            static_cast<std::size_t>(vocab_size)));
  }
  SamplingParams& params = request.params;
  params.max_tokens = 12;
  params.ignore_eos = true;
  params.seed = 100 + i;
  params.temperature = i % 4 == 0 ? 0.0 : 0.8;
  params.n = i % 5 == 3 ? 3 : 1;
  if (i % 3 == 1) params.top_k = 9;
  if (i % 3 == 2) params.top_p = 0.8;
  if (i % 4 == 1) params.min_p = 0.05;
  if (i % 5 == 1) params.repetition_penalty = 1.3;
  if (i % 5 == 2) params.frequency_penalty = 0.9;
  if (i % 6 == 1) params.logit_bias = {{7, 2.5F}, {11, -100.0F}};
  if (i % 6 == 2) params.min_tokens = 5;
  if (i % 6 == 2) params.stop_token_ids = {9, 31};
  if (i % 7 == 3) params.allowed_token_ids = {5, 6, 7, 8, 40, 41, 42};
  if (i % 2 == 0) params.logprobs = static_cast<std::int64_t>(i % 5);
  if (i == 5) params.prompt_logprobs = 2;
  return request;
}

}  // namespace

EngineArgs args_of(const std::string& model) {
  EngineArgs args;
  args.model = model;
  args.device = "cpu";
  args.threads = 2;
  args.max_num_seqs = 20;
  args.max_model_len = 96;
  args.pooling_type = "mean";  // the state of every row
  return args;
}

Results run_requests(Result<std::unique_ptr<Engine>> made, bool preempts) {
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  if (!made.ok()) return {};
  Engine& engine = **made;
  Collector collector(kNumRequests + kNumEmbeddings);
  std::optional<HeldEngine> hold(engine);  // until all are there: else they might never crowd it
  for (std::size_t i = 0; i < kNumRequests + kNumEmbeddings; ++i) {
    GenerateRequest request = request_of(i, engine.info().vocab_size);
    request.embed = i >= kNumRequests;
    const auto id = engine.submit(std::move(request), collector.sink(i));
    EXPECT_TRUE(id.ok()) << id.status().to_string();
    if (!id.ok()) return {};
  }
  hold.reset();
  collector.wait_for(kNumRequests + kNumEmbeddings);
  const EngineStats stats = engine.observe();
  EXPECT_EQ(stats.num_preemptions > 0, preempts);
  EXPECT_EQ(stats.blocks_leaked, 0);
  Results results = {.outputs = collector.take(), .numbers = {}};
  const auto add = [&](float number) {
    results.numbers.push_back(std::bit_cast<std::uint32_t>(number));
  };
  for (const PositionLogprobs& position : collector.prompt_logprobs()) {
    add(position.token.logprob);
    for (const TokenLogprob& each : position.top) add(each.logprob);
  }
  EXPECT_FALSE(results.numbers.empty());
  for (std::size_t i = kNumRequests; i < kNumRequests + kNumEmbeddings; ++i) {
    EXPECT_FALSE(results.outputs[i].at(0).last.embedding.empty());
    for (const float number : results.outputs[i].at(0).last.embedding) add(number);
  }
  return results;
}

}  // namespace quire::test
