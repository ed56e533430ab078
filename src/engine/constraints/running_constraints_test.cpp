#include "engine/constraints/running_constraints.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/constraints/constraint_compiler.h"
#include "load/model_bundle.h"

namespace quire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RunningConstraintsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto bundle = open_model(QUIRE_SOURCE_DIR "/tests/data/tiny_llama/hf", "");
    ASSERT_TRUE(bundle.ok()) << bundle.status().to_string();
    tokenizer_ = std::move(bundle->text.tokenizer);
    compiler_ = std::make_unique<ConstraintCompiler>(*tokenizer_, tokenizer_->vocab_size() + 5);
    constraints_ = std::make_unique<RunningConstraints>(*tokenizer_, clock_);
  }

  void add(RequestId id, const std::string& regex, SamplingParams params = {}) {
    StructuredOutputsParams constraint;
    constraint.regex = regex;
    params.structured_outputs = std::make_shared<const StructuredOutputsParams>(constraint);
    auto compiled = compiler_->use(constraint);
    ASSERT_TRUE(compiled.ok()) << compiled.status().to_string();
    AddRequest request;
    request.request_id = id;
    request.sampling_params = std::make_shared<const SamplingParams>(std::move(params));
    constraints_->add(request, *compiled);
  }

  TokenId token(const std::string& text) const { return tokenizer_->find(text).value(); }

  void row(RequestId id, const std::vector<TokenId>& drafts = {}, RowUse use = RowUse::kTokens) {
    ScheduledRequest scheduled;
    scheduled.request_id = id;
    scheduled.use = use;
    scheduled.num_scheduled_tokens = 1 + static_cast<std::int32_t>(drafts.size());
    scheduled.first_draft = static_cast<std::int32_t>(plan_.draft_token_ids.size());
    scheduled.num_drafts = static_cast<std::int32_t>(drafts.size());
    for (std::int32_t i = 0; i < scheduled.num_drafts; ++i) {
      plan_.draft_token_ids.push_back(drafts[static_cast<std::size_t>(i)]);
      plan_.draft_parents.push_back(i - 1);
    }
    plan_.scheduled.push_back(scheduled);
  }
  const StepMasks& fill() {
    constraints_->fill(plan_, masks_);
    plan_.clear();
    return masks_;
  }
  // The texts that a mask allows, "<end>" for a token that ends the sequence.
  std::vector<std::string> allowed(const TokenMask& mask) const {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < mask.words.size() * 32; ++i) {
      if ((mask.words[i / 32] >> (i % 32) & 1) == 0) continue;
      const auto id = static_cast<TokenId>(i);
      texts.emplace_back(tokenizer_->is_eos(id) ? "<end>" : tokenizer_->token_bytes(id));
    }
    return texts;
  }
  static TokenId first_of(const TokenMask& mask) {
    for (std::size_t i = 0;; ++i) {
      if ((mask.words[i / 32] >> (i % 32) & 1) != 0) return static_cast<TokenId>(i);
    }
  }
  bool take(RequestId id, const std::vector<TokenId>& tokens) {
    std::vector<SampledToken> sampled;
    for (const TokenId each : tokens) sampled.push_back({.request_id = id, .token_id = each});
    return constraints_->take(id, sampled);
  }

  SteadyClock clock_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<ConstraintCompiler> compiler_;
  std::unique_ptr<RunningConstraints> constraints_;
  SchedulerOutput plan_;
  StepMasks masks_;
};

TEST_F(RunningConstraintsTest, MasksAreOfRowsThatSample) {
  add(1, "q[01]");
  add(2, "z");
  row(1);
  row(2, {}, RowUse::kNothing);  // a chunk of its prompt
  row(3);                        // of no constraint
  const StepMasks& masks = fill();
  ASSERT_EQ(masks.masks.size(), 1U);
  EXPECT_EQ(masks.masks[0].request_id, 1U);
  EXPECT_THAT(allowed(masks.masks[0]), ElementsAre("q"));
  EXPECT_TRUE(take(1, {token("q")}));
  row(1);
  EXPECT_THAT(allowed(fill().masks[0]), ElementsAre("0", "1"));
  EXPECT_FALSE(take(1, {token("q")}));
  constraints_->remove(1);
  constraints_->remove(2);
  EXPECT_TRUE(constraints_->empty());
}

TEST_F(RunningConstraintsTest, DraftsHaveMasksAsFarAsTheyAreAllowed) {
  add(1, "q[01]{3}");
  row(1, {token("q"), token("0"), token("z"), token("1")});
  const StepMasks& masks = fill();
  ASSERT_EQ(masks.masks.size(), 3U);
  for (std::int32_t i = 0; i < 3; ++i) EXPECT_EQ(masks.masks[static_cast<std::size_t>(i)].draft, i);
  EXPECT_THAT(allowed(masks.masks[0]), ElementsAre("q"));
  EXPECT_THAT(allowed(masks.masks[2]), ElementsAre("0", "1"));
  EXPECT_THAT(masks.stuck, IsEmpty());
  // Two of them were right.
  EXPECT_TRUE(take(1, {token("q"), token("0"), token("1")}));
  row(1, {token("1"), token("1")});
  // Behind the last one there is the end alone.
  const StepMasks& later = fill();
  ASSERT_EQ(later.masks.size(), 2U);
  EXPECT_THAT(allowed(later.masks[1]), ElementsAre("<end>", "<end>"));
}

TEST_F(RunningConstraintsTest, EachOutputHasItsOwn) {
  SamplingParams params;
  params.n = 2;
  add(7, "q[01]", params);
  EXPECT_TRUE(take(8, {token("q")}));
  row(7);
  row(8);
  const StepMasks& masks = fill();
  EXPECT_THAT(allowed(masks.masks[0]), ElementsAre("q"));
  EXPECT_THAT(allowed(masks.masks[1]), ElementsAre("0", "1"));
  EXPECT_EQ(constraints_->siblings(8).first, 7U);
  EXPECT_EQ(constraints_->siblings(8).count, 2);
}

TEST_F(RunningConstraintsTest, MinTokensHoldsTheEndBack) {
  SamplingParams params;
  params.min_tokens = 2;
  params.max_tokens = 9;
  add(1, "q*", params);
  row(1, {token("q"), token("q")});
  const StepMasks& masks = fill();
  EXPECT_THAT(allowed(masks.masks[1]), testing::Not(testing::Contains("<end>")));
  EXPECT_THAT(allowed(masks.masks[2]), testing::Contains("<end>"));
}

// In the tokenizer's own spelling, up to the last place where it cuts whatever follows.
TEST_F(RunningConstraintsTest, ForcedTextIsSpeltAsTheTokenizerDoes) {
  add(1, "the pages on the dog, [01]");
  const auto whole = tokenizer_->encode("the pages on the dog", {.add_special_tokens = false});
  ASSERT_TRUE(whole.ok());
  ASSERT_GT(whole->size(), 3U);
  std::vector<TokenId> forced;
  constraints_->forced_tokens(1, forced);
  // The comma is not settled: a space follows, and then what nobody knows.
  ASSERT_GE(forced.size(), whole->size());
  EXPECT_TRUE(std::equal(whole->begin(), whole->end(), forced.begin()));
  row(1, forced);
  const StepMasks& masks = fill();
  ASSERT_EQ(masks.masks.size(), forced.size() + 1);
  for (std::size_t i = 0; i < forced.size(); ++i) {
    EXPECT_THAT(allowed(masks.masks[i]),
                ElementsAre(std::string(tokenizer_->token_bytes(forced[i]))));
  }
  EXPECT_TRUE(take(1, forced));
  std::vector<TokenId> more;
  constraints_->forced_tokens(1, more);
  EXPECT_THAT(more, IsEmpty());
}

// The masks do not depend on whether tokens were guessed: off and on give the same text.
TEST_F(RunningConstraintsTest, MasksAreTheSameOneByOne) {
  add(1, "(the dog|the cat) runs on [0-9], (the pages|the sea) end");
  add(2, "(the dog|the cat) runs on [0-9], (the pages|the sea) end");
  std::vector<TokenId> forced;
  for (int i = 0; i < 40; ++i) {
    constraints_->forced_tokens(1, forced);
    row(1, forced);
    const StepMasks ahead = fill();
    std::vector<std::vector<std::uint32_t>> words;
    for (const TokenMask& mask : ahead.masks) {
      words.emplace_back(mask.words.begin(), mask.words.end());
    }
    if (allowed(ahead.masks[0])[0] == "<end>") return;
    forced.push_back(first_of(ahead.masks.back()));
    if (tokenizer_->is_eos(forced.back())) forced.pop_back();
    ASSERT_TRUE(take(1, forced));
    for (std::size_t k = 0; k < forced.size(); ++k) {
      row(2);
      const StepMasks& one = fill();
      EXPECT_TRUE(std::ranges::equal(one.masks[0].words, words[k])) << "token " << k;
      ASSERT_TRUE(take(2, {forced[k]}));
    }
  }
  FAIL() << "the text does not end";
}

// Rows of one token, of outputs that want to know.
TEST_F(RunningConstraintsTest, ForcedRowsAreTold) {
  SamplingParams params;
  params.return_forced_tokens = true;
  add(1, "q[01]z", params);
  add(2, "q[01]z");
  row(2, {token("q"), token("0")});
  row(1, {token("q"), token("0")});
  const StepMasks& masks = fill();
  ASSERT_EQ(masks.masks.size(), 6U);
  ASSERT_EQ(masks.forced.size(), 2U);
  for (const StepMasks::Forced& each : masks.forced) EXPECT_EQ(each.output_id, 1U);
  EXPECT_EQ(masks.forced[0].draft, 0);
  EXPECT_EQ(masks.forced[1].draft, 2);
  row(2);
  EXPECT_THAT(fill().forced, IsEmpty());
}

TEST_F(RunningConstraintsTest, ARowThatNothingIsLeftOfIsTold) {
  SamplingParams params;
  params.min_tokens = 5;
  params.max_tokens = 9;
  add(1, "qz", params);
  row(1, {token("q"), token("z")});
  const StepMasks& masks = fill();
  EXPECT_EQ(masks.masks.size(), 2U);
  ASSERT_EQ(masks.stuck.size(), 1U);
  EXPECT_EQ(masks.stuck[0].draft, 2);
  EXPECT_THAT(masks.stuck[0].reason.message(),
              HasSubstr("complete after 2 tokens and cannot go on, and min_tokens is 5"));
}

}  // namespace
}  // namespace quire
