#include "draft/drafter.h"

#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "draft/ngram_drafter.h"
#include "draft/suffix_drafter.h"

namespace quire {
namespace {

std::vector<TokenId> to_tokens(std::string_view text) { return {text.begin(), text.end()}; }

// What is guessed after `text`, letter by letter.
std::string guess(Drafter& drafter, std::string_view text, std::int32_t most,
                  std::int32_t* match = nullptr) {
  const auto tokens = to_tokens(text);
  EXPECT_TRUE(drafter.begin({.id = 1, .max_tokens = 1000}));
  drafter.read(1, std::span(tokens).first(tokens.size() / 2));
  Draft draft;
  const DraftWish wish = {.request_id = 1, .tokens = tokens, .most = most, .draft = &draft};
  drafter.draft(std::span(&wish, 1));
  drafter.end(1, {});
  if (match != nullptr) *match = draft.match;
  return {draft.tokens.begin(), draft.tokens.end()};
}

SpeculativeConfig ngram(std::int32_t min, std::int32_t max) {
  return {.method = SpeculativeMethod::kNgram,
          .num_speculative_tokens = 8,
          .prompt_lookup_min = min,
          .prompt_lookup_max = max};
}

TEST(NgramDrafter, TheLongestMatchCountsAndTheLatestOfThese) {
  NgramDrafter drafter(ngram(2, 4), 1 << 20);
  std::int32_t match = 0;
  EXPECT_EQ(guess(drafter, "abcdX bcdY cdZ abcd", 3, &match), "X b");
  EXPECT_EQ(match, 4);
  EXPECT_EQ(guess(drafter, "1abcdX 2abcdY 3cdZ abcd", 1), "Y");  // both of the longest that counts
  EXPECT_EQ(guess(drafter, "dX cdY ed", 3), "");                 // one token is too few
  EXPECT_EQ(guess(drafter, "dX cdY cd", 2, &match), "Y ");
  EXPECT_EQ(match, 3);
}

TEST(NgramDrafter, WhatRepeatsItselfIsGuessedOn) {
  NgramDrafter drafter(ngram(1, 5), 1 << 20);
  EXPECT_EQ(guess(drafter, "ababa", 7), "bababab");
  EXPECT_EQ(guess(drafter, "xx", 4), "xxxx");
}

TEST(NgramDrafter, NothingIsGuessedForOneThatItDoesNotFollow) {
  NgramDrafter drafter(ngram(1, 5),
                       TokenIndex::bytes(100, NgramDrafter::grams(ngram(1, 5)).size()));
  EXPECT_TRUE(drafter.begin({.id = 1, .max_tokens = 100}));
  EXPECT_FALSE(drafter.begin({.id = 2, .max_tokens = 100}));  // there is no memory left
  Draft draft;
  const auto tokens = to_tokens("aaaa");
  const DraftWish wish = {.request_id = 2, .tokens = tokens, .most = 4, .draft = &draft};
  drafter.draft(std::span(&wish, 1));
  EXPECT_TRUE(draft.tokens.empty());
  drafter.end(1, {});
  EXPECT_TRUE(drafter.begin({.id = 2, .max_tokens = 100}));
  drafter.draft(std::span(&wish, 1));
  EXPECT_EQ(draft.tokens.size(), 4U);
}

SpeculativeConfig suffix() {
  return {.method = SpeculativeMethod::kSuffix, .num_speculative_tokens = 8};
}

TEST(SuffixDrafter, TheMostFrequentContinuationIsTaken) {
  SuffixDrafter drafter(suffix(), 1 << 20, 0);
  std::int32_t match = 0;
  EXPECT_EQ(guess(drafter, "1abcdx 2abcdx 3abcdy 4abcd", 8, &match), "x 3a");
  EXPECT_EQ(match, 4);  // and so four tokens at most
}

TEST(SuffixDrafter, EndsWhereNothingIsLikely) {
  SpeculativeConfig config = suffix();
  config.suffix_min_token_prob = 0.4;
  SuffixDrafter drafter(config, 1 << 20, 0);
  EXPECT_EQ(guess(drafter, "1abcd12 2abcd13 3abcd24 4abcd", 8), "1");  // then 1 of 3 each
}

// Guesses as letters, each with its parent's place: "b0" follows the first guess.
std::string guess_tree(Drafter& drafter, std::string_view text, std::int32_t most) {
  const auto tokens = to_tokens(text);
  EXPECT_TRUE(drafter.begin({.id = 1, .max_tokens = 1000}));
  Draft draft;
  const DraftWish wish = {.request_id = 1, .tokens = tokens, .most = most, .draft = &draft};
  drafter.draft(std::span(&wish, 1));
  drafter.end(1, {});
  EXPECT_TRUE(draft.view().valid());
  std::string all;
  for (std::int32_t i = 0; i < draft.view().size(); ++i) {
    all += static_cast<char>(draft.view().token(i));
    const std::int32_t parent = draft.view().parent(i);
    all += parent < 0 ? std::string("-") : std::to_string(parent);
  }
  return all;
}

TEST(SuffixDrafter, SeveralContinuationsAreATreeTheLikeliestFirst) {
  SpeculativeConfig config = suffix();
  config.suffix_max_tree_width = 3;
  config.suffix_min_token_prob = 0;
  SuffixDrafter drafter(config, 1 << 20, 0);
  // x twice, y three times, z once: y-, x-, and what follows them.
  const std::string text = "1abcdyp 2abcdyq 3abcdyp 4abcdxr 5abcdxr 6abcdzs 7abcd";
  EXPECT_EQ(guess_tree(drafter, text, 5), "y-x-p0r1 2");
  // The third path is that of z or of q, which are as likely: that of the latest place.
  EXPECT_EQ(guess_tree(drafter, text, 7), "y-x-p0r1 2 3z-");
  config.suffix_max_tree_width = 1;
  SuffixDrafter chain(config, 1 << 20, 0);
  EXPECT_EQ(guess_tree(chain, text, 4), "y-p0 142");
}

TEST(SuffixDrafter, ATreeGoesOnInWhatItHasGuessed) {
  SpeculativeConfig config = suffix();
  config.suffix_max_tree_width = 2;
  config.suffix_min_token_prob = 0;
  config.suffix_max_spec_factor = 8;
  SuffixDrafter drafter(config, 1 << 20, 0);
  // Of the two places with "ab" the later one reaches the end of the text after two guesses.
  EXPECT_EQ(guess_tree(drafter, "abcabab", 4).substr(0, 2), "a-");
  EXPECT_EQ(guess_tree(drafter, "ababab", 4), "a-b0a1b2");
}

TEST(SuffixDrafter, OutputsOfOthersAreLookedUpWhereTheyAreAllowed) {
  SpeculativeConfig config = suffix();
  SuffixDrafter alone(config, 1 << 20, 0);
  config.suffix_max_cached_requests = 10;
  SuffixDrafter shared(config, 1 << 20, 1000);
  const auto output = to_tokens("in the beginning was the word");
  for (SuffixDrafter* drafter : {&alone, &shared}) {
    ASSERT_TRUE(drafter->begin({.id = 7, .max_tokens = 100}));
    drafter->end(7, output);
  }
  EXPECT_EQ(guess(alone, "so beginning was", 6), "");
  EXPECT_EQ(guess(shared, "so beginning was", 6), " the w");
}

TEST(SuffixDrafter, OldOutputsOfOthersAreForgotten) {
  SpeculativeConfig config = suffix();
  config.suffix_max_cached_requests = 4;
  SuffixDrafter drafter(config, 1 << 20, 1000);
  const auto end = [&](std::string_view output) {
    ASSERT_TRUE(drafter.begin({.id = 7, .max_tokens = 100}));
    drafter.end(7, to_tokens(output));
  };
  end("abcdefgh");
  EXPECT_EQ(guess(drafter, "1abcd", 2), "ef");
  for (int i = 0; i < 4; ++i) end("another one");
  EXPECT_EQ(guess(drafter, "1abcd", 2), "");
  EXPECT_EQ(guess(drafter, "2anoth", 2), "er");
}

// Two halves of 20 tokens: what is longer leaves its end.
TEST(SharedOutputs, KeepsTheLatest) {
  constexpr std::array<std::int32_t, 1> kGrams = {2};
  SharedOutputs outputs(40, 100, kGrams);
  outputs.add(to_tokens(std::string(100, 'x') + "end"));
  EXPECT_EQ(outputs.half(0).text.size(), 20U);
  EXPECT_EQ(outputs.half(0).text[18], 'd');
  outputs.add(to_tokens("next"));
  EXPECT_EQ(outputs.half(0).text.size(), 5U);
  EXPECT_EQ(outputs.half(1).text.size(), 20U);
  outputs.add(to_tokens("last"));
  EXPECT_EQ(outputs.half(0).text.size(), 10U);
  EXPECT_EQ(outputs.half(0).num_outputs, 2U);
}

TEST(MakeDrafter, TakesWhatIsPlanned) {
  const SpeculativeConfig config = ngram(2, 5);
  const std::uint64_t each = TokenIndex::bytes(512, 2);
  EXPECT_EQ(drafter_bytes(config, 4, 512), 4 * each);
  auto drafter = make_lookup_drafter(config, 4, 512);
  for (RequestId id = 0; id < 4; ++id) EXPECT_TRUE(drafter->begin({.id = id, .max_tokens = 512}));
  EXPECT_FALSE(drafter->begin({.id = 4, .max_tokens = 512}));
  EXPECT_EQ(drafter_bytes(config, 1 << 20, 8192), kMaxDrafterBytes);
  SpeculativeConfig shared = suffix();
  shared.suffix_max_cached_requests = 10'000;
  EXPECT_GT(drafter_bytes(shared, 1, 8192), drafter_bytes(suffix(), 1, 8192));
  EXPECT_LT(drafter_bytes(shared, 1, 8192), std::uint64_t{64} << 20);
}

}  // namespace
}  // namespace quire
