#include "core/satisfiable.h"

#include <gtest/gtest.h>

namespace quire {
namespace satisfiable_test {

constexpr std::int64_t kVocabSize = 100;
const std::vector<TokenId> kEos = {2, 3};

StatusCode check(const SamplingParams& params,
                 const std::vector<std::vector<TokenId>>& words = {}) {
  return check_satisfiable(params, words, kEos, kVocabSize).code();
}

TEST(Satisfiable, EndTokensAloneContradictMinTokens) {
  SamplingParams params;
  params.allowed_token_ids = {2, 3};
  EXPECT_EQ(check(params), StatusCode::kOk);
  params.min_tokens = 1;
  EXPECT_EQ(check(params), StatusCode::kInvalidArgument);
  params.ignore_eos = true;
  EXPECT_EQ(check(params), StatusCode::kOk);
  params.ignore_eos = false;
  params.allowed_token_ids.push_back(7);
  EXPECT_EQ(check(params), StatusCode::kOk);
  params.stop_token_ids = {7};
  EXPECT_EQ(check(params), StatusCode::kInvalidArgument);
}

TEST(Satisfiable, WhatIsAllowedMayNotAllBeBanned) {
  SamplingParams params;
  params.allowed_token_ids = {5, 6};
  EXPECT_EQ(check(params, {{5}}), StatusCode::kOk);
  EXPECT_EQ(check(params, {{5}, {6}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(check(params, {{5}, {6, 6}}), StatusCode::kOk);  // 6 once
}

TEST(Satisfiable, TheWholeVocabularyMayNotBeBanned) {
  std::vector<std::vector<TokenId>> words;
  for (TokenId id = 0; id < kVocabSize; ++id) words.push_back({id});
  EXPECT_EQ(check({}, words), StatusCode::kInvalidArgument);
  words.pop_back();
  EXPECT_EQ(check({}, words), StatusCode::kOk);
}

}  // namespace satisfiable_test
}  // namespace quire
