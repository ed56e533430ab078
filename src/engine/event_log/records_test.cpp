#include "engine/event_log/records.h"

#include <gtest/gtest.h>

#include "engine/event_log/bytes.h"

namespace quire {
namespace {

TEST(EventLogParams, EveryFieldIsKept) {
  SamplingParams params;
  params.n = 3;
  params.temperature = 0.25;
  params.top_k = 7;
  params.top_p = 0.5;
  params.min_p = 0.125;
  params.repetition_penalty = 1.5;
  params.presence_penalty = -0.5;
  params.frequency_penalty = 0.75;
  params.seed = 0xFFFF'FFFF'FFFF'FFFFULL;
  params.max_tokens = 99;
  params.min_tokens = 4;
  params.ignore_eos = true;
  params.stop = {"a", "bc"};
  params.include_stop_str_in_output = true;
  params.stop_token_ids = {5, 70'000};
  params.logit_bias = {{8, -1.5F}};
  params.bad_words = {"bad"};
  params.bad_words_token_ids = {{1, 2}, {3}};
  params.allowed_token_ids = {5, 6};
  params.logprobs = 0;
  params.prompt_logprobs = 2;
  params.skip_special_tokens = false;
  std::vector<std::uint8_t> bytes;
  ByteWriter writer(bytes);
  encode_params(params, writer);
  ByteReader reader(bytes);
  const SamplingParams read = decode_params(reader);
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader.size(), 0U);
  EXPECT_EQ(read.n, 3);
  EXPECT_EQ(read.temperature, 0.25);
  EXPECT_EQ(read.top_k, 7);
  EXPECT_EQ(read.top_p, 0.5);
  EXPECT_EQ(read.min_p, 0.125);
  EXPECT_EQ(read.repetition_penalty, 1.5);
  EXPECT_EQ(read.presence_penalty, -0.5);
  EXPECT_EQ(read.frequency_penalty, 0.75);
  EXPECT_EQ(read.seed, params.seed);
  EXPECT_EQ(read.max_tokens, 99);
  EXPECT_EQ(read.min_tokens, 4);
  EXPECT_TRUE(read.ignore_eos);
  EXPECT_EQ(read.stop, params.stop);
  EXPECT_TRUE(read.include_stop_str_in_output);
  EXPECT_EQ(read.stop_token_ids, params.stop_token_ids);
  ASSERT_EQ(read.logit_bias.size(), 1U);
  EXPECT_EQ(read.logit_bias[0].token_id, 8);
  EXPECT_EQ(read.logit_bias[0].bias, -1.5F);
  EXPECT_EQ(read.bad_words, params.bad_words);
  EXPECT_EQ(read.bad_words_token_ids, params.bad_words_token_ids);
  EXPECT_EQ(read.allowed_token_ids, params.allowed_token_ids);
  EXPECT_EQ(read.logprobs, 0);
  EXPECT_EQ(read.prompt_logprobs, 2);
  EXPECT_FALSE(read.skip_special_tokens);
}

}  // namespace
}  // namespace quire
