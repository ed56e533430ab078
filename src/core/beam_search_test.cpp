// The rules of a search, by hand, and what becomes of the rows of its beams. That they are
// transformers' rules is a matter of goldens (tests/beam_search_test.cpp).
#include "core/beam_search.h"

#include <array>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/beam_rows.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TokenId kEnd = 9;
constexpr std::array<TokenId, 1> kEnding = {kEnd};
const std::vector<TokenId> kPrompt = {1};

using Candidates = std::vector<TokenLogprob>;  // of a beam

void advance(BeamSearch& search, const std::vector<Candidates>& candidates) {
  const std::vector<std::span<const TokenLogprob>> spans(candidates.begin(), candidates.end());
  search.advance(spans, kEnding);
}

std::vector<std::vector<TokenId>> outputs_of(std::span<const BeamSearch::Beam> beams) {
  std::vector<std::vector<TokenId>> outputs;
  for (const BeamSearch::Beam& beam : beams) {
    outputs.emplace_back(beam.token_ids.begin() + std::ssize(kPrompt), beam.token_ids.end());
  }
  return outputs;
}

std::vector<TokenId> best_of(const BeamSearch& search) {
  const auto& ids = search.finished()[0].beam.token_ids;
  return {ids.begin() + std::ssize(kPrompt), ids.end()};
}

TEST(BeamSearch, GoesOnWithTheBestOfAllBeams) {
  BeamSearch search({.width = 2, .max_tokens = 5}, kPrompt);
  advance(search, {{{3, -0.1F}, {4, -0.3F}, {5, -0.9F}}});
  EXPECT_THAT(outputs_of(search.beams()), ElementsAre(ElementsAre(3), ElementsAre(4)));
  // Both go on from the second beam.
  advance(search, {{{3, -2.0F}, {4, -2.5F}, {5, -3.0F}}, {{6, -0.1F}, {7, -0.2F}, {8, -3.0F}}});
  EXPECT_THAT(outputs_of(search.beams()), ElementsAre(ElementsAre(4, 6), ElementsAre(4, 7)));
  EXPECT_THAT(search.beams()[0].parent, 1);
  EXPECT_NEAR(search.beams()[0].cumulative_logprob, -0.4, 1e-6);
  EXPECT_EQ(search.num_common_tokens(), 2);
  EXPECT_THAT(search.finished(), IsEmpty());
}

TEST(BeamSearch, AnEndCountsAmongTheBestAlone) {
  BeamSearch search({.width = 2, .max_tokens = 5}, kPrompt);
  advance(search, {{{3, -0.1F}, {4, -0.3F}, {kEnd, -0.9F}}});  // the third: no output of it
  EXPECT_THAT(search.finished(), IsEmpty());
  advance(search, {{{kEnd, -0.1F}, {4, -2.5F}, {5, -3.0F}}, {{6, -0.2F}, {7, -0.3F}, {8, -3.0F}}});
  ASSERT_THAT(search.finished(), SizeIs(1));
  EXPECT_THAT(best_of(search), ElementsAre(3, kEnd));
  EXPECT_TRUE(search.finished()[0].stopped);
  EXPECT_NEAR(search.finished()[0].score, -0.2 / 2, 1e-6);  // by its length, the end included
  EXPECT_THAT(outputs_of(search.beams()), ElementsAre(ElementsAre(4, 6), ElementsAre(4, 7)));
  EXPECT_FALSE(search.over());
}

TEST(BeamSearch, EndsAtItsLength) {
  BeamSearch search({.width = 2, .length_penalty = 0, .max_tokens = 1}, kPrompt);
  advance(search, {{{3, -0.1F}, {kEnd, -0.3F}, {5, -0.9F}}});
  EXPECT_TRUE(search.over());
  ASSERT_THAT(search.finished(), SizeIs(2));
  EXPECT_THAT(best_of(search), ElementsAre(3));
  EXPECT_FALSE(search.finished()[0].stopped);
  EXPECT_TRUE(search.finished()[1].stopped);
}

// After two tokens the outputs that have ended score -0.575 and, after one token, -1.0; the best
// beam has -1.15 + `left`.
bool over_after_two(EarlyStopping early_stopping, float left) {
  BeamSearch search({.width = 2, .early_stopping = early_stopping, .max_tokens = 10}, kPrompt);
  advance(search, {{{kEnd, -1.0F}, {3, -1.1F}, {4, -1.15F}}});
  advance(search, {{{kEnd, -0.05F}, {6, -40.0F}}, {{7, left}, {8, -40.0F}}});
  EXPECT_THAT(search.finished(), SizeIs(2));
  return search.over();
}

TEST(BeamSearch, StopsEarlyAsItIsTold) {
  EXPECT_TRUE(over_after_two(EarlyStopping::kAtOnce, -0.1F));
  EXPECT_FALSE(over_after_two(EarlyStopping::kWhenUnlikely, -0.8F));  // -1.95 / 2
  EXPECT_TRUE(over_after_two(EarlyStopping::kWhenUnlikely, -0.9F));   // -2.05 / 2
  EXPECT_FALSE(over_after_two(EarlyStopping::kNever, -8.8F));         // -9.95 / 10
  EXPECT_TRUE(over_after_two(EarlyStopping::kNever, -8.9F));
}

TEST(BeamSearch, ReportsHowItStandsAndWhyItIsOver) {
  BeamSearch search({.width = 2, .max_tokens = 5}, kPrompt);
  EXPECT_EQ(search.report(), (BeamReport{.width = 2, .num_live = 1}));
  advance(search, {{{3, -0.1F}, {4, -0.3F}, {kEnd, -0.9F}}});
  advance(search, {{{kEnd, -0.1F}, {4, -2.5F}, {5, -3.0F}}, {{6, -0.2F}, {7, -0.3F}, {8, -3.0F}}});
  BeamReport report = search.report();
  EXPECT_EQ(report.num_live, 2);
  EXPECT_EQ(report.num_tokens, 2);
  EXPECT_EQ(report.num_finished, 1);
  EXPECT_EQ(report.num_forks, 2);  // of the prompt, and of the second beam
  EXPECT_EQ(report.best_score, report.worst_score);
  EXPECT_NEAR(*report.best_reachable, -0.5 / 2, 1e-6);
  EXPECT_FALSE(report.end);
  advance(search, {{{kEnd, -0.1F}, {4, -9.0F}, {5, -9.0F}}, {{6, -8.0F}, {7, -9.0F}, {8, -9.0F}}});
  report = search.report();
  EXPECT_EQ(report.end, BeamEnd::kUnlikely);
  EXPECT_LT(*report.best_reachable, *report.worst_score);

  BeamSearch eager({.width = 1, .early_stopping = EarlyStopping::kAtOnce, .max_tokens = 5},
                   kPrompt);
  advance(eager, {{{kEnd, -0.5F}, {3, -0.6F}}});
  EXPECT_EQ(eager.report().end, BeamEnd::kEarlyStopping);
  BeamSearch shortest({.width = 1, .max_tokens = 1}, kPrompt);
  advance(shortest, {{{3, -0.5F}, {kEnd, -0.6F}}});
  EXPECT_EQ(shortest.report().end, BeamEnd::kMaxTokens);
  EXPECT_EQ(shortest.report().num_live, 0);
  BeamSearch all_end({.width = 1, .max_tokens = 5}, kPrompt);
  advance(all_end, {{{kEnd, -0.5F}}});
  EXPECT_EQ(all_end.report().end, BeamEnd::kNoCandidates);
}

TEST(BeamSearch, KeepsTheBestFinishedOnes) {
  BeamSearch search({.width = 1, .length_penalty = 0, .max_tokens = 4}, kPrompt);
  advance(search, {{{3, -0.5F}, {kEnd, -0.6F}}});
  advance(search, {{{kEnd, -0.1F}, {4, -0.2F}}});
  EXPECT_THAT(best_of(search), ElementsAre(3, kEnd));
  EXPECT_TRUE(search.over());
}

TEST(BeamSearch, KeepsLogProbabilitiesThatAreWanted) {
  BeamSearch search({.width = 2, .max_tokens = 5, .num_top_logprobs = 1}, kPrompt);
  advance(search, {{{3, -0.1F, 1}, {4, -0.3F, 2}, {5, -0.9F, 3}}});
  ASSERT_THAT(search.beams()[1].logprobs, SizeIs(1));
  EXPECT_EQ(search.beams()[1].logprobs[0].token_id, 4);
  EXPECT_EQ(search.beams()[1].logprobs[0].rank, 2);
  ASSERT_THAT(search.beams()[1].top_logprobs, SizeIs(1));
  EXPECT_EQ(search.beams()[1].top_logprobs[0].token_id, 3);
}

TEST(BeamSearch, RestoresWhatCanBeAlone) {
  const BeamSearchRules rules = {.width = 2, .max_tokens = 5};
  BeamSearch search(rules, kPrompt);
  advance(search, {{{3, -0.1F}, {kEnd, -0.3F}, {5, -0.9F}}});
  const std::vector<BeamSearch::Beam> beams(search.beams().begin(), search.beams().end());
  const std::vector<BeamSearch::Finished> finished(search.finished().begin(),
                                                   search.finished().end());
  EXPECT_TRUE(BeamSearch::restore(rules, kPrompt, 2, beams, finished, 1).ok());
  EXPECT_EQ(BeamSearch::restore(rules, kPrompt, 2, beams, finished, 1)->report(), search.report());
  EXPECT_FALSE(BeamSearch::restore(rules, kPrompt, 2, beams, finished, 2).ok());
  EXPECT_FALSE(BeamSearch::restore(rules, kPrompt, 3, beams, finished, 1).ok());
  EXPECT_FALSE(BeamSearch::restore(rules, kPrompt, 2, {}, finished, 1).ok());
  auto broken = beams;
  broken[0].cumulative_logprob = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(BeamSearch::restore(rules, kPrompt, 2, broken, finished, 1).ok());
  broken = beams;
  broken[1].token_ids[0] = 7;
  EXPECT_FALSE(BeamSearch::restore(rules, kPrompt, 2, broken, finished, 1).ok());
}

std::vector<BeamSearch::Beam> children_of(const std::vector<std::int32_t>& parents) {
  std::vector<BeamSearch::Beam> beams(parents.size());
  for (std::size_t i = 0; i < parents.size(); ++i) beams[i].parent = parents[i];
  return beams;
}

TEST(BeamRows, ChildrenKeepOrForkTheirParentsRow) {
  BeamRows rows(10, 3);
  rows.place_first();
  rows.tell_all_placed();
  BeamRows::Changes changes = rows.follow(children_of({0, 0, 0}));
  EXPECT_THAT(changes.dropped, IsEmpty());
  ASSERT_THAT(changes.forks, SizeIs(2));
  EXPECT_EQ(changes.forks[0].parent, 10U);
  EXPECT_THAT(rows.ids(), ElementsAre(10, 11, 12));
  EXPECT_THAT(rows.placed(), SizeIs(3));
  EXPECT_THAT(rows.told(), IsEmpty());

  changes = rows.follow(children_of({2, 0, 2}));  // the second beam has no child
  EXPECT_THAT(changes.dropped, ElementsAre(11));
  ASSERT_THAT(changes.forks, SizeIs(1));
  EXPECT_EQ(changes.forks[0].parent, 12U);
  EXPECT_EQ(changes.forks[0].child, 11U);
  EXPECT_THAT(rows.ids(), ElementsAre(12, 10, 11));

  rows.lose_all();
  EXPECT_THAT(rows.ids(), ElementsAre(10, 11, 12));
  EXPECT_THAT(rows.placed(), IsEmpty());
}

TEST(BeamRows, RestoresWhatCanBeAlone) {
  EXPECT_TRUE(BeamRows::restore({{11, 10}, 2, 2}, 10, 2, 2).ok());
  EXPECT_TRUE(BeamRows::restore({{10, 11}, 1, 1}, 10, 2, 2).ok());
  EXPECT_FALSE(BeamRows::restore({{10, 10}, 2, 2}, 10, 2, 2).ok());
  EXPECT_FALSE(BeamRows::restore({{10, 12}, 2, 2}, 10, 2, 2).ok());
  EXPECT_FALSE(BeamRows::restore({{10}, 1, 1}, 10, 2, 2).ok());
  EXPECT_FALSE(BeamRows::restore({{10, 11}, 2, 3}, 10, 2, 2).ok());
}

}  // namespace
}  // namespace quire
