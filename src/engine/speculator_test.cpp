#include "engine/speculator.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "draft/guess_prospect.h"
#include "engine/speculator_test_support.h"

namespace quire {
namespace {

TokenId unheard_of(RequestId id, std::int32_t position) {
  return static_cast<TokenId>(random_bits(id, static_cast<std::uint64_t>(position)) % 1'000'000);
}

double ns(Duration time) { return static_cast<double>(time.count()); }

SpeculativeConfig ngrams(std::int32_t count) {
  return {.method = SpeculativeMethod::kNgram,
          .num_speculative_tokens = count,
          .prompt_lookup_min = 2,
          .prompt_lookup_max = 4};
}

// Guesses right, and always as far as it is asked to. It has to read all tokens before, its own
// guesses excepted.
class Oracle final : public Drafter {
 public:
  Oracle(std::int64_t guess_ns, std::int64_t read_ns, Instant& now)
      : guess_(guess_ns), read_(read_ns), now_(now) {}
  bool begin(const DraftedRequest& request) override {
    return num_read_.emplace(request.id, 0).second;
  }
  void read(RequestId /*id*/, std::span<const TokenId> /*tokens*/) override {}
  DraftWork draft(std::span<const DraftWish> wishes) override {
    std::int32_t longest = 0;
    bool reads = false;
    for (const DraftWish& wish : wishes) {
      if (wish.most <= 0) continue;
      const std::size_t unread = num_unread(wish.request_id, wish.tokens);
      reads = reads || unread > 33;
      if (unread > 33) now_ += read_ * unread;
      longest = std::max(longest, wish.most);
      const auto size = static_cast<std::int32_t>(wish.tokens.size());
      num_read_[wish.request_id] = wish.tokens.size();
      for (std::int32_t i = 0; i < wish.most; ++i) {
        wish.draft->tokens.push_back(unheard_of(wish.request_id, size + i));
      }
    }
    now_ += guess_ * longest;
    if (longest == 0) return DraftWork::kNone;
    return reads ? DraftWork::kPrompts : DraftWork::kSteps;
  }
  std::size_t num_unread(RequestId id, std::span<const TokenId> tokens) const override {
    return tokens.size() - std::min(tokens.size(), num_read_.at(id));
  }
  bool computes() const override { return true; }
  void end(RequestId id, std::span<const TokenId> /*output*/) override { num_read_.erase(id); }

 private:
  Duration guess_;
  Duration read_;
  Instant& now_;
  std::map<RequestId, std::size_t> num_read_;
};

// Guesses three tokens of four, and knows at which place of a text it does not.
class Honest final : public Drafter {
 public:
  explicit Honest(Instant& now) : now_(now) {}
  bool begin(const DraftedRequest& /*request*/) override { return true; }
  void read(RequestId /*id*/, std::span<const TokenId> /*tokens*/) override {}
  DraftWork draft(std::span<const DraftWish> wishes) override {
    GuessRound round;
    std::vector<GuessChain> chains;
    for (const DraftWish& wish : wishes) chains.push_back({.prospect = wish.prospect});
    double guess_time = 0;
    double saved = 0;
    std::int32_t longest = 0;
    do {
      round.begin_guess();
      saved = 0;
      for (std::size_t i = 0; i < wishes.size(); ++i) {
        const DraftWish& wish = wishes[i];
        const auto length = std::ssize(wish.draft->tokens);
        if (length == wish.most || (length > 0 && round.saved(chains[i]) <= 0)) continue;
        const auto position = static_cast<std::int32_t>(std::ssize(wish.tokens) + length);
        const bool knows = position % 4 != 0;
        wish.draft->tokens.push_back(unheard_of(wish.request_id, knows ? position : position + 1));
        wish.draft->probabilities.push_back(knows ? 0.99F : 0.05F);
        round.add(chains[i], wish.draft->probabilities.back());
        longest = std::max(longest, static_cast<std::int32_t>(length) + 1);
        if (length + 1 < wish.most) saved += round.saved(chains[i]);
        if (wish.prospect != nullptr) guess_time = wish.prospect->guess_time;
      }
    } while (saved > guess_time);
    now_ += Duration(20'000) * longest;
    return longest == 0 ? DraftWork::kNone : DraftWork::kSteps;
  }
  bool computes() const override { return true; }
  bool estimates() const override { return true; }
  void end(RequestId /*id*/, std::span<const TokenId> /*output*/) override {}

 private:
  Instant& now_;
};

using Loop = SpeculatorLoop;

// With one that computes: it knows what comes, and takes its time.
Loop foreseeing(std::int64_t guess_ns, std::int64_t read_ns) {
  return Loop([&](Instant& now) { return std::make_unique<Oracle>(guess_ns, read_ns, now); }, 4,
              unheard_of);
}

// Every third token is one of three, at random.
TokenId forked(RequestId /*id*/, std::int32_t position) {
  if (position % 3 != 2) return 10 + position % 3;
  return 20 + static_cast<TokenId>(random_bits(7, static_cast<std::uint64_t>(position)) % 3);
}

TEST(Speculator, ATreeIsRightWhereAChainMayBeWrong) {
  SpeculativeConfig config = {.method = SpeculativeMethod::kSuffix,
                              .num_speculative_tokens = 12,
                              .suffix_max_spec_factor = 4};
  Loop chain(config, forked);
  config.suffix_max_tree_width = 4;
  Loop tree(config, forked);
  for (Loop* loop : {&chain, &tree}) {
    loop->row_ns = 10'000;
    loop->add(1, 1500);
  }
  const double chain_time = chain.run();
  const double tree_time = tree.run();
  EXPECT_EQ(chain.branched_of[1], 0);
  EXPECT_GT(tree.branched_of[1], 50);
  EXPECT_LT(tree_time, 0.9 * chain_time);
}

TEST(Speculator, WhatCanBeLookedUpComesFaster) {
  Loop plain(ngrams(8));
  plain.add(1, 400, 0);
  const double plain_time = plain.run();
  EXPECT_EQ(plain.stats().draft_tokens, 0);
  Loop loop(ngrams(8));
  loop.add(1, 400);
  const double time = loop.run();
  // Nine rows take 1.45 ms where one takes 1.05, and give nine tokens.
  EXPECT_LT(time, 0.25 * plain_time);
  const SchedulerStats stats = loop.stats();
  EXPECT_GT(stats.draft_tokens_accepted, 300);
  EXPECT_LT(stats.draft_tokens_rejected, 10);
}

TEST(Speculator, WhereRowsCostAsMuchAsStepsNothingIsGuessedForLong) {
  Loop plain(ngrams(8));
  plain.step_ns = 1000;
  plain.row_ns = 1'000'000;
  plain.add(1, 1900, 0);
  const double plain_time = plain.run();
  Loop loop(ngrams(8));
  loop.step_ns = 1000;
  loop.row_ns = 1'000'000;
  loop.add(1, 1900);
  EXPECT_LT(loop.run(), 1.02 * plain_time);
}

TEST(Speculator, WhatCannotBeLookedUpTakesNoLonger) {
  // Pairs of tokens come again, and what follows them is another each time.
  const auto misleading = [](RequestId id, std::int32_t position) {
    return position % 3 < 2 ? TokenId{10} + position % 3 : unheard_of(id, position);
  };
  for (const std::int64_t row_ns : {20'000, 300'000, 900'000}) {
    Loop plain(ngrams(8), misleading);
    plain.row_ns = row_ns;
    plain.add(1, 1500, 0);
    const double plain_time = plain.run();
    Loop loop(ngrams(8), misleading);
    loop.row_ns = row_ns;
    loop.add(1, 1500);
    EXPECT_LT(loop.run(), 1.02 * plain_time) << row_ns;
  }
}

// Those whose text repeats itself get drafts, the others beside them do not.
TEST(Speculator, EachRequestHasItsOwnDrafts) {
  Loop loop(ngrams(4), [](RequestId id, std::int32_t position) {
    if (id == 1) return repeated(id, position);
    return position % 3 < 2 ? TokenId{10} + position % 3 : unheard_of(id, position);
  });
  loop.row_ns = 300'000;
  loop.add(1, 600);
  loop.add(2, 200);
  loop.run();
  EXPECT_GT(loop.drafts_of[1], 300);
  EXPECT_LT(loop.drafts_of[2], 40);
}

TEST(Speculator, ARequestMayAskForItsNumber) {
  Loop loop(ngrams(8));
  loop.row_ns = 5'000'000;  // whatever it costs
  loop.add(1, 61, 3);
  loop.add(2, 61, 0);
  loop.run();
  EXPECT_EQ(loop.drafts_of[2], 0);
  EXPECT_EQ(loop.num_proposals[2], 0);
  EXPECT_EQ(loop.stats().draft_tokens, loop.drafts_of[1]);
  EXPECT_EQ(loop.stats().draft_tokens_rejected, 0);
  // After the first token four come with each step.
  EXPECT_EQ(loop.drafts_of[1], 45);
}

// What guesses are said to have given is what the same text takes without them.
TEST(Speculator, TheSpeedUpIsThatOfTheSameTextWithoutGuesses) {
  struct Case {
    std::int64_t row_ns = 0;
    std::int64_t draft_ns = 0;
    DraftCount count;
  };
  for (const Case& each : std::vector<Case>{{50'000, 0, std::nullopt},
                                            {50'000, 40'000, std::nullopt},
                                            {20'000, 0, 4},
                                            {600'000, 600'000, 4},  // where guesses lose
                                            {2'000'000, 0, 4}}) {
    const auto loop_of = [&](DraftCount count) {
      auto loop = std::make_unique<Loop>(ngrams(8), forked);
      loop->row_ns = each.row_ns;
      loop->draft_ns = each.draft_ns;
      loop->add(1, 40, 0);  // nothing is known before a step was measured
      loop->run();
      loop->measured = {};
      loop->add(2, 800, count);
      loop->run();
      return loop;
    };
    const Duration plain = loop_of(0)->measured.taken;
    const auto of_guesses = loop_of(each.count);
    const Loop& loop = *of_guesses;
    const double truth = ns(plain) / ns(loop.measured.taken);
    const SpeculationReport& report = *loop.reports.at(2);
    ASSERT_TRUE(report.times.speedup());
    EXPECT_NEAR(*report.times.speedup(), truth, 0.02 * truth) << each.row_ns;
    EXPECT_EQ(report.times.taken, loop.measured.taken);
    EXPECT_EQ(report.times.draft, loop.measured.draft);
    EXPECT_EQ(report.times.verify, loop.measured.verify);
    EXPECT_NEAR(ns(report.times.draft_rows), ns(loop.measured.draft_rows),
                0.05 * ns(loop.measured.draft_rows));
    if (each.row_ns > 100'000) {
      EXPECT_LT(*report.times.speedup(), 1);
    } else {
      EXPECT_GT(*report.times.speedup(), 1);
    }
    EXPECT_EQ(report.num_steps, loop.measured.num_compared);
    EXPECT_EQ(report.times.num_compared, loop.measured.num_compared);
    EXPECT_EQ(report.num_accepted, loop.stats().draft_tokens_accepted);
    for (std::size_t place = 0; place < report.accepted_at.size(); ++place) {
      EXPECT_EQ(report.accepted_at[place], loop.stats().draft_tokens_accepted_at[place]);
    }
    EXPECT_DOUBLE_EQ(report.mean_accepted_length(),
                     1 + static_cast<double>(report.num_accepted) /
                             static_cast<double>(loop.stats().num_drafted_rows));
  }
}

// The engine's times are those of the steps, and outputs that are in all of them share all of them.
TEST(Speculator, TimesAddUp) {
  Loop loop(ngrams(8));
  loop.draft_ns = 7'001;
  loop.add(1, 30, 0);
  loop.run();
  for (const RequestId id : {10, 20, 30})
    loop.add(id, 300, id == 20 ? DraftCount(3) : std::nullopt);
  while (loop.stats().num_running + loop.stats().num_waiting > 0) {
    loop.step();
    if (HasFatalFailure()) return;
    EXPECT_EQ(loop.times().draft, loop.measured.draft);
    EXPECT_EQ(loop.times().verify, loop.measured.verify);
    EXPECT_EQ(loop.times().taken, loop.measured.taken);
    EXPECT_EQ(loop.times().num_compared, loop.measured.num_compared);
    EXPECT_LE(loop.times().draft_rows, loop.times().verify);
    EXPECT_LE(loop.times().verify, loop.times().taken);
    const SpeculationTimes told = loop.told();
    const double rounding = 4 * static_cast<double>(loop.measured.num_compared);
    EXPECT_NEAR(ns(told.draft), ns(loop.times().draft), rounding);
    EXPECT_NEAR(ns(told.draft_rows), ns(loop.times().draft_rows), rounding);
    EXPECT_LE(ns(told.verify), ns(loop.times().verify) + rounding);
  }
  EXPECT_GT(loop.measured.num_compared, 20);
  const SpeculationTimes told = loop.told();
  EXPECT_GT(told.verify, loop.times().verify / 2);
  ASSERT_TRUE(loop.times().speedup());
  // Three with up to eight guesses each: 1.15 ms for 3 tokens, or at most 2.35 ms for 27.
  EXPECT_GT(*loop.times().speedup(), 1.5);
  EXPECT_LT(*loop.times().speedup(), 1.15 / 3 / (2.35 / 27));
}

// A prompt of 1,000 tokens, which whoever guesses reads in 15 ms: too long for 16 tokens that take
// 17 ms without guesses, and soon earned back by 300.
TEST(Speculator, APromptIsReadOnlyWhereGuessesPayForIt) {
  const auto run = [](DraftCount count, std::int64_t max_tokens) {
    Loop loop = foreseeing(20'000, 15'000);
    // What reading costs is learned from the first.
    loop.add(1, 17, std::nullopt, 1, 1000);
    loop.run();
    loop.measured = {};
    for (RequestId id = 2; id < 12; ++id) {
      loop.add(id, max_tokens, count, 1, 1000);
      loop.run();
    }
    return std::pair(ns(loop.measured.taken), loop.drafts_of[11]);
  };
  const double plain = run(0, 17).first;
  EXPECT_GT(run(4, 17).first, 1.1 * plain);  // what there was to lose
  const auto [governed, num_drafts] = run(std::nullopt, 17);
  EXPECT_LT(governed, 1.01 * plain);
  EXPECT_EQ(num_drafts, 0);
  const auto [longer, num_longer_drafts] = run(std::nullopt, 300);
  EXPECT_LT(longer, 0.5 * run(0, 300).first);
  EXPECT_GT(num_longer_drafts, 200);
}

// A row takes a twentieth of a step. Of four tokens one is not guessed, after which the next four
// begin.
TEST(Speculator, WhereTheDrafterIsUnsureNothingIsChecked) {
  const auto make = [](Instant& now) { return std::make_unique<Honest>(now); };
  Loop loop(make, 8, unheard_of);
  loop.add(1, 400);
  loop.run();
  const SchedulerStats governed = loop.stats();
  EXPECT_GE(governed.draft_tokens_accepted, 270);  // of 300
  EXPECT_LE(governed.draft_tokens_rejected, 15);
  Loop fixed(make, 8, unheard_of);
  fixed.add(1, 400, 8);
  fixed.run();
  EXPECT_GE(fixed.stats().draft_tokens_accepted, 290);
  EXPECT_GE(fixed.stats().draft_tokens_rejected, 400);
}

// Before a step of as few rows was measured there is nothing to compare with.
TEST(Speculator, WhatWasNotMeasuredIsNotTold) {
  Loop loop(ngrams(8));
  loop.add(1, 60, 4);
  EXPECT_FALSE(loop.times().speedup());
  for (int i = 0; i < 8; ++i) loop.step();
  EXPECT_GT(loop.times().verify, Duration::zero());
  EXPECT_FALSE(loop.times().speedup());
  EXPECT_FALSE(loop.reports[1]->times.speedup());
  loop.run();
  loop.add(2, 30, 0);
  loop.run();
  EXPECT_FALSE(loop.times().speedup());  // none had guesses
  loop.add(3, 60, 4);
  loop.run();
  ASSERT_TRUE(loop.reports[3]->times.speedup());
  EXPECT_GT(*loop.times().speedup(), 1);
  EXPECT_LT(*loop.times().speedup(), *loop.reports[3]->times.speedup());
}

TEST(Speculator, EachOfTheOutputsIsFollowed) {
  Loop loop(ngrams(8));
  loop.add(1, 60, 4, 3);
  loop.run();
  for (const RequestId id : {1, 2, 3}) EXPECT_GT(loop.drafts_of[id], 20) << id;
}

}  // namespace
}  // namespace quire
