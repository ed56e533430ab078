#include "serve/quotas/key_quotas.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const KeyQuotas::Clock::time_point kStart{std::chrono::hours(1)};

TEST(KeyQuotas, RequestsAMinuteComeBackOneByOne) {
  KeyQuotas quotas({.requests_per_minute = 6, .tokens_per_minute = {}, .parallel_requests = {}});
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(quotas.enter("a", kStart));
  const auto refusal = quotas.enter("a", kStart + seconds(1));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->retry_after_s, 9);
  EXPECT_NE(refusal->message.find("6 requests a minute (--rpm-limit)"), std::string::npos);
  EXPECT_TRUE(quotas.enter("a", kStart + milliseconds(9990)));
  EXPECT_FALSE(quotas.enter("a", kStart + milliseconds(10'010)));
  EXPECT_TRUE(quotas.enter("a", kStart + milliseconds(10'020)));
}

// Over a long time a key gets what its limit says, and never more than one minute's worth on top.
TEST(KeyQuotas, AKeyThatAlwaysAsksGetsItsPace) {
  KeyQuotas quotas({.requests_per_minute = 30, .tokens_per_minute = {}, .parallel_requests = {}});
  int taken = 0;
  for (int tick = 0; tick < 6000; ++tick) {
    if (!quotas.enter("a", kStart + milliseconds(100 * tick))) ++taken;
  }
  EXPECT_GE(taken, 30 + 299);
  EXPECT_LE(taken, 30 + 300);
}

TEST(KeyQuotas, TokensAreChargedAsTheyComeAndDebtsAreWaitedOff) {
  KeyQuotas quotas({.requests_per_minute = {}, .tokens_per_minute = 600, .parallel_requests = {}});
  EXPECT_FALSE(quotas.enter("a", kStart));
  quotas.charge("a", 500, kStart);  // a prompt
  EXPECT_FALSE(quotas.enter("a", kStart));
  quotas.charge("a", 1000, kStart);  // an output larger than what was left
  const auto refusal = quotas.enter("a", kStart);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->retry_after_s, 90);
  EXPECT_TRUE(quotas.enter("a", kStart + seconds(89)));
  EXPECT_FALSE(quotas.enter("a", kStart + seconds(91)));
}

TEST(KeyQuotas, WhatIsGivenBackNeverFillsABucketBeyondItsLimit) {
  KeyQuotas quotas({.requests_per_minute = {}, .tokens_per_minute = 100, .parallel_requests = {}});
  quotas.charge("a", 50, kStart);
  quotas.charge("a", -50, kStart + seconds(20));  // of which 33 have come back by themselves
  EXPECT_EQ(quotas.standing("a", kStart + seconds(20)).tokens, 100);
}

TEST(KeyQuotas, RequestsAtATimeAreCountedUntilTheyLeave) {
  KeyQuotas quotas({.requests_per_minute = {}, .tokens_per_minute = {}, .parallel_requests = 2});
  EXPECT_FALSE(quotas.enter("a", kStart));
  EXPECT_FALSE(quotas.enter("a", kStart));
  EXPECT_TRUE(quotas.enter("a", kStart));
  quotas.leave("a");
  EXPECT_FALSE(quotas.enter("a", kStart));
}

// What one limit refuses is not taken from the others.
TEST(KeyQuotas, ARefusedRequestCostsNothing) {
  KeyQuotas quotas({.requests_per_minute = 2, .tokens_per_minute = 100, .parallel_requests = 1});
  EXPECT_FALSE(quotas.enter("a", kStart));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(quotas.enter("a", kStart));
  EXPECT_EQ(quotas.standing("a", kStart).requests, 1);
  quotas.leave("a");
  EXPECT_FALSE(quotas.enter("a", kStart));
}

TEST(KeyQuotas, KeysDoNotTouchEachOther) {
  KeyQuotas quotas({.requests_per_minute = 1, .tokens_per_minute = 10, .parallel_requests = 1});
  EXPECT_FALSE(quotas.enter("a", kStart));
  quotas.charge("a", 1000, kStart);
  EXPECT_TRUE(quotas.enter("a", kStart));
  EXPECT_FALSE(quotas.enter("b", kStart));
  EXPECT_EQ(quotas.standing("b", kStart).tokens, 10);
}

TEST(KeyQuotas, AKeyMayHaveItsOwnLimits) {
  const QuotaLimits all = {
      .requests_per_minute = 1, .tokens_per_minute = 10, .parallel_requests = {}};
  KeyQuotas quotas(
      all, {{"more", {.requests_per_minute = 2, .tokens_per_minute = {}, .parallel_requests = {}}},
            {"free", {}}});
  EXPECT_EQ(quotas.limits_of("another"), all);
  EXPECT_FALSE(quotas.enter("another", kStart));
  EXPECT_TRUE(quotas.enter("another", kStart));
  quotas.charge("more", 1000, kStart);
  EXPECT_FALSE(quotas.enter("more", kStart));
  EXPECT_FALSE(quotas.enter("more", kStart));
  EXPECT_NE(quotas.enter("more", kStart)->message.find("limit of 2 requests"), std::string::npos);
  EXPECT_EQ(quotas.standing("more", kStart + seconds(30)).requests, 1);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(quotas.enter("free", kStart));
  EXPECT_TRUE(quotas.any());
  EXPECT_FALSE(KeyQuotas({}, {{"free", {}}}).any());
  EXPECT_TRUE(KeyQuotas({}, {{"some", all}}).any());
}

}  // namespace
}  // namespace quire
