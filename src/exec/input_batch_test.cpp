#include "exec/input_batch.h"

#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using testing::ElementsAre;

// A request with a prompt of three tokens, in blocks of two, that got token 8 in its first step.
class InputBatchTest : public testing::Test {
 protected:
  void SetUp() override {
    SchedulerOutput plan;
    plan.step_id = 1;
    plan.new_token_ids = {5, 6, 7};
    plan.new_requests.push_back({.request_id = 1,
                                 .first_token = 0,
                                 .num_tokens = 3,
                                 .num_prompt_tokens = 3,
                                 .sample_index = 0,
                                 .sampling_params = std::make_shared<const SamplingParams>()});
    plan.new_block_ids = {4, 2};
    plan.scheduled.push_back(
        {.request_id = 1, .num_scheduled_tokens = 3, .use = RowUse::kTokens, .num_new_blocks = 2});
    ASSERT_TRUE(batch_.prepare(plan).ok());
    std::vector<SampledToken> sampled = {{.request_id = 1, .token_id = 8}};
    batch_.accept(sampled);
    ASSERT_EQ(sampled.size(), 1U);
  }

  // The token that it knows last, and drafts 9 and 4.
  SchedulerOutput plan_with_drafts() {
    SchedulerOutput plan;
    plan.step_id = 2;
    plan.draft_token_ids = {9, 4};
    plan.draft_parents = {-1, 0};
    plan.new_block_ids = {7};
    plan.scheduled.push_back({.request_id = 1,
                              .num_computed_tokens = 3,
                              .num_scheduled_tokens = 3,
                              .use = RowUse::kTokens,
                              .num_drafts = 2,
                              .num_new_blocks = 1});
    return plan;
  }
  SchedulerOutput plan_of_row(std::int32_t num_computed_tokens) {
    SchedulerOutput plan;
    plan.step_id = 3;
    plan.scheduled.push_back({.request_id = 1,
                              .num_computed_tokens = num_computed_tokens,
                              .num_scheduled_tokens = 1,
                              .use = RowUse::kTokens});
    return plan;
  }
  std::vector<TokenId> accept(const std::vector<TokenId>& tokens) {
    std::vector<SampledToken> sampled;
    for (const TokenId token : tokens) sampled.push_back({.request_id = 1, .token_id = token});
    batch_.accept(sampled);
    std::vector<TokenId> kept;
    for (const SampledToken& token : sampled) kept.push_back(token.token_id);
    return kept;
  }
  std::vector<TokenId> tokens() const {
    return {batch_.token_ids().begin(), batch_.token_ids().end()};
  }

  // The token that it knows last, drafts 9 and 4 after it, and behind 9 also 6 and 7.
  SchedulerOutput plan_with_tree() {
    SchedulerOutput plan;
    plan.step_id = 2;
    plan.draft_token_ids = {9, 4, 1, 6, 7};
    plan.draft_parents = {-1, 0, 1, 0, 3};
    plan.new_block_ids = {7, 1, 5, 3};
    plan.scheduled.push_back({.request_id = 1,
                              .num_computed_tokens = 3,
                              .num_scheduled_tokens = 6,
                              .use = RowUse::kTokens,
                              .num_drafts = 5,
                              .num_branched = 2,
                              .num_new_blocks = 2,
                              .num_branch_blocks = 2});
    return plan;
  }

  InputBatch batch_{{.block_size = 2,
                     .max_num_batched_tokens = 16,
                     .max_num_seqs = 2,
                     .max_model_len = 16,
                     .max_draft_paths = 2}};
};

TEST_F(InputBatchTest, EachDraftIsARowToSampleAt) {
  const SchedulerOutput drafted = plan_with_drafts();
  ASSERT_TRUE(batch_.prepare(drafted).ok());
  EXPECT_THAT(tokens(), ElementsAre(8, 9, 4));
  EXPECT_THAT(batch_.positions(), ElementsAre(3, 4, 5));
  EXPECT_THAT(batch_.slot_mapping(), ElementsAre(2 * 2 + 1, 7 * 2, 7 * 2 + 1));
  const auto& rows = batch_.sample_rows();
  ASSERT_EQ(rows.size(), 3U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].row, static_cast<std::int64_t>(i));
    EXPECT_EQ(rows[i].draft, static_cast<std::int32_t>(i));
    EXPECT_EQ(rows[i].context.token_ids.size(), 4 + i);
  }
  EXPECT_THAT(rows[2].context.output(), ElementsAre(8, 9, 4));
  EXPECT_THAT(rows[0].drafts.tokens(), ElementsAre(9, 4));
  EXPECT_EQ(rows[2].draft, 2);
}

TEST_F(InputBatchTest, TokensAreKeptUpToTheFirstWrongGuess) {
  const SchedulerOutput drafted = plan_with_drafts();
  ASSERT_TRUE(batch_.prepare(drafted).ok());
  EXPECT_THAT(accept({9, 3, 1}), ElementsAre(9, 3));
  EXPECT_THAT(batch_.known_rows(), ElementsAre(0, 1));
  ASSERT_TRUE(batch_.prepare(plan_of_row(5)).ok());
  EXPECT_THAT(tokens(), ElementsAre(3));
}

TEST_F(InputBatchTest, AllGuessesMayBeRight) {
  const SchedulerOutput drafted = plan_with_drafts();
  ASSERT_TRUE(batch_.prepare(drafted).ok());
  EXPECT_THAT(accept({9, 4, 1}), ElementsAre(9, 4, 1));
}

TEST_F(InputBatchTest, BlocksAreGivenBack) {
  const SchedulerOutput drafted = plan_with_drafts();
  ASSERT_TRUE(batch_.prepare(drafted).ok());
  EXPECT_THAT(accept({3, 4, 1}), ElementsAre(3));
  SchedulerOutput plan = plan_of_row(4);
  plan.truncated_tables = {{1, 2}};
  EXPECT_EQ(batch_.prepare(plan).code(), StatusCode::kInternal);  // its fifth token has no block
  plan.truncated_tables.clear();
  plan.new_block_ids = {3};
  plan.scheduled[0].num_new_blocks = 1;
  ASSERT_TRUE(batch_.prepare(plan).ok());
  EXPECT_THAT(batch_.slot_mapping(), ElementsAre(3 * 2));
}

TEST_F(InputBatchTest, EachPathIsASequence) {
  ASSERT_TRUE(batch_.prepare(plan_with_tree()).ok());
  EXPECT_THAT(tokens(), ElementsAre(8, 9, 4, 1, 6, 7));
  EXPECT_THAT(batch_.positions(), ElementsAre(3, 4, 5, 6, 5, 6));
  EXPECT_THAT(batch_.slot_mapping(),
              ElementsAre(2 * 2 + 1, 7 * 2, 7 * 2 + 1, 1 * 2, 5 * 2 + 1, 3 * 2));
  const AttentionBatch attention = batch_.attention_batch();
  ASSERT_EQ(attention.num_seqs, 2);
  EXPECT_THAT(std::span(attention.query_start_loc, 3), ElementsAre(0, 4, 6));
  EXPECT_THAT(std::span(attention.seq_lens, 2), ElementsAre(7, 7));
  EXPECT_THAT(std::span(attention.block_tables[0], 4), ElementsAre(4, 2, 7, 1));
  EXPECT_THAT(std::span(attention.block_tables[1], 4), ElementsAre(4, 2, 5, 3));
  // 9 lies where the other path reads it, too.
  EXPECT_THAT(batch_.repeated_rows(), ElementsAre(1));
  EXPECT_THAT(batch_.repeated_slots(), ElementsAre(5 * 2));
  const auto& rows = batch_.sample_rows();
  ASSERT_EQ(rows.size(), 6U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].row, static_cast<std::int64_t>(i));
    EXPECT_EQ(rows[i].draft, static_cast<std::int32_t>(i));
  }
  EXPECT_THAT(rows[3].context.output(), ElementsAre(8, 9, 4, 1));
  EXPECT_THAT(rows[5].context.output(), ElementsAre(8, 9, 6, 7));
}

TEST_F(InputBatchTest, ThePathThatWasRightStays) {
  const SchedulerOutput drafted = plan_with_tree();
  ASSERT_TRUE(batch_.prepare(drafted).ok());
  EXPECT_THAT(accept({9, 6, 0, 0, 7, 2}), ElementsAre(9, 6, 7, 2));
  EXPECT_THAT(batch_.known_rows(), ElementsAre(0, 1, 4, 5));
  SchedulerOutput plan = plan_of_row(7);
  plan.adopted_blocks = {{1, 2, 5}, {1, 3, 3}};
  ASSERT_TRUE(batch_.prepare(plan).ok());
  EXPECT_THAT(tokens(), ElementsAre(2));
  EXPECT_THAT(batch_.slot_mapping(), ElementsAre(3 * 2 + 1));
}

TEST_F(InputBatchTest, PathsHaveTheBlocksThatTheyNeed) {
  SchedulerOutput plan = plan_with_tree();
  plan.scheduled[0].num_branch_blocks = 1;
  EXPECT_EQ(batch_.prepare(plan).code(), StatusCode::kInternal);
}

TEST_F(InputBatchTest, AMaskIsOfARow) {
  ASSERT_TRUE(batch_.prepare(plan_with_drafts()).ok());
  const std::vector<std::uint32_t> words = {5};
  const std::vector<TokenMask> masks = {{.request_id = 1, .draft = 1, .words = words}};
  ASSERT_TRUE(batch_.apply_masks(masks).ok());
  EXPECT_TRUE(batch_.sample_rows()[0].context.mask.empty());
  EXPECT_EQ(batch_.sample_rows()[1].context.mask.data(), words.data());
  const std::vector<TokenMask> wrong = {{.request_id = 1, .draft = 3, .words = words}};
  EXPECT_EQ(batch_.apply_masks(wrong).code(), StatusCode::kInternal);
}

// Blocks of two pages, the second of layers with a window that has passed the first block.
TEST(InputBatchPages, EachPageHasTablesOfItsOwn) {
  InputBatch batch({.block_size = 2,
                    .pages_per_block = 2,
                    .max_num_batched_tokens = 16,
                    .max_num_seqs = 2,
                    .max_model_len = 16});
  SchedulerOutput plan;
  plan.step_id = 1;
  plan.new_token_ids = {5, 6, 7, 8, 9};
  plan.new_block_ids = {4, kNullBlock, 2, 3, 6, 1};
  plan.new_requests.push_back({.request_id = 1,
                               .num_tokens = 5,
                               .num_prompt_tokens = 5,
                               .sampling_params = std::make_shared<const SamplingParams>(),
                               .first_block = 0,
                               .num_blocks = 4});
  plan.scheduled.push_back({.request_id = 1,
                            .num_computed_tokens = 4,
                            .num_scheduled_tokens = 1,
                            .use = RowUse::kTokens,
                            .first_new_block = 4,
                            .num_new_blocks = 2});
  ASSERT_TRUE(batch.prepare(plan).ok());
  EXPECT_EQ(batch.slot_mapping(0)[0], 6 * 2);
  EXPECT_EQ(batch.slot_mapping(1)[0], 1 * 2);
  EXPECT_THAT(std::span(batch.block_tables(0)[0], 3), ElementsAre(4, 2, 6));
  EXPECT_THAT(std::span(batch.block_tables(1)[0] + 1, 2), ElementsAre(3, 1));
  std::vector<SampledToken> sampled = {{.request_id = 1, .token_id = 8}};
  batch.accept(sampled);

  SchedulerOutput next;
  next.step_id = 2;
  next.truncated_tables = {{1, 4}};
  next.replaced_blocks = {{1, 3, 7}};
  next.new_block_ids = {9, 8};
  next.scheduled.push_back({.request_id = 1,
                            .num_computed_tokens = 5,
                            .num_scheduled_tokens = 1,
                            .use = RowUse::kTokens,
                            .num_new_blocks = 2});
  ASSERT_TRUE(batch.prepare(next).ok());
  EXPECT_THAT(std::span(batch.block_tables(0)[0], 3), ElementsAre(4, 2, 9));
  EXPECT_THAT(std::span(batch.block_tables(1)[0] + 1, 2), ElementsAre(7, 8));
  EXPECT_EQ(batch.slot_mapping(1)[0], 8 * 2 + 1);
}

// Blocks of two tokens and two pages, the second of them with a state.
TEST(InputBatchPages, AStateIsTakenUpAndLeftByBlocks) {
  InputBatch batch({.block_size = 2,
                    .pages_per_block = 2,
                    .state_pages = 1,
                    .max_num_batched_tokens = 16,
                    .max_num_seqs = 2,
                    .max_model_len = 16});
  const auto params = std::make_shared<const SamplingParams>();
  SchedulerOutput plan;
  plan.step_id = 1;
  plan.new_token_ids = {5, 6, 7, 8, 9, 1};
  plan.new_block_ids = {4, kNullBlock, 2, 3, 6, 1, 7, 8};
  // One goes on after a block that was found, the other begins.
  plan.new_requests = {{.request_id = 1,
                        .num_tokens = 5,
                        .num_prompt_tokens = 5,
                        .sampling_params = params,
                        .num_blocks = 4},
                       {.request_id = 2,
                        .first_token = 5,
                        .num_tokens = 1,
                        .num_prompt_tokens = 1,
                        .sampling_params = params}};
  plan.scheduled = {{.request_id = 1,
                     .num_computed_tokens = 3,
                     .num_scheduled_tokens = 2,
                     .use = RowUse::kTokens,
                     .first_new_block = 4,
                     .num_new_blocks = 2},
                    {.request_id = 2,
                     .num_scheduled_tokens = 1,
                     .use = RowUse::kTokens,
                     .first_new_block = 6,
                     .num_new_blocks = 2}};
  ASSERT_TRUE(batch.prepare(plan).ok());
  EXPECT_TRUE(batch.slot_mapping(1).empty());
  const auto runs = batch.state_runs(1);
  ASSERT_EQ(runs.size(), 3U);
  const auto expect = [&](std::size_t i, std::int32_t first_row, BlockId source, BlockId target) {
    EXPECT_EQ(runs[i].first_row, first_row);
    EXPECT_EQ(runs[i].num_rows, 1);
    EXPECT_EQ(runs[i].source, source);
    EXPECT_EQ(runs[i].target, target);
  };
  expect(0, 0, 3, 3);  // in place
  expect(1, 1, 3, 1);  // to the next block
  expect(2, 2, kNullBlock, 8);
  EXPECT_TRUE(batch.state_runs(0).empty());
}

// A prompt of five tokens in chunks of two and three, after another request's row.
TEST_F(InputBatchTest, RowsThatArePooled) {
  const auto rows = [this](Pooling pooling, RequestId id) {
    SchedulerOutput plan = plan_of_row(2);
    plan.new_token_ids = {5, 6, 7, 8, 9};
    plan.new_requests.push_back({.request_id = id,
                                 .num_tokens = 5,
                                 .num_prompt_tokens = 5,
                                 .pooling = pooling,
                                 .sampling_params = std::make_shared<const SamplingParams>()});
    plan.new_block_ids = {4, 2, 3};
    plan.scheduled.push_back({.request_id = id, .num_scheduled_tokens = 2, .num_new_blocks = 3});
    EXPECT_TRUE(batch_.prepare(plan).ok());
    std::vector<std::int64_t> all;
    for (const auto& row : batch_.pool_rows()) all.push_back(row.row);
    SchedulerOutput rest;
    rest.scheduled.push_back({.request_id = id,
                              .num_computed_tokens = 2,
                              .num_scheduled_tokens = 3,
                              .use = RowUse::kState});
    EXPECT_TRUE(batch_.prepare(rest).ok());
    EXPECT_TRUE(accept({}).empty());
    EXPECT_THAT(batch_.known_rows(), ElementsAre(0, 1, 2));
    for (const auto& row : batch_.pool_rows()) {
      EXPECT_EQ(row.request_id, id);
      all.push_back(row.row + 10);
    }
    SchedulerOutput end;
    end.removed_request_ids = {id};
    EXPECT_TRUE(batch_.prepare(end).ok());
    return all;
  };
  EXPECT_THAT(rows(Pooling::kLast, 2), ElementsAre(12));
  EXPECT_THAT(rows(Pooling::kCls, 3), ElementsAre(1));
  EXPECT_THAT(rows(Pooling::kMean, 4), ElementsAre(1, 2, 10, 11, 12));
}

}  // namespace
}  // namespace quire
