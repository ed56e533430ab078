// A model and what drafts for it from its states, run step by step against goldens
// (scripts/goldens/draft_layers.py).
#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "draft/token_tree.h"
#include "engine/draft_model_parts.h"
#include "kernels/cpu_device.h"
#include "support/test_models.h"

namespace quire::test {

struct Golden {
  std::vector<TokenId> token_ids;
  std::size_t num_prompt = 0;
  // Of each position after the prompt: a chain, or two choices of each head.
  std::vector<std::vector<TokenId>> guesses;
};

// One after the other, where they are lists of lists.
inline std::vector<TokenId> ids_of(const json::value& list) {
  std::vector<TokenId> ids;
  for (const json::value& id : list.as_array()) {
    const std::vector<TokenId> parts =
        id.is_array() ? ids_of(id) : std::vector{id.to_number<TokenId>()};
    ids.insert(ids.end(), parts.begin(), parts.end());
  }
  return ids;
}

inline Golden read_golden(const std::string& name, const char* guesses = "guesses") {
  const json::value file = read_json_file(family_golden(name, "drafts.json"), 1U << 20).value();
  Golden golden;
  golden.token_ids = ids_of(file.as_object().at("token_ids"));
  golden.num_prompt = file.as_object().at("num_prompt").to_number<std::size_t>();
  for (const json::value& chain : file.as_object().at(guesses).as_array()) {
    golden.guesses.push_back(ids_of(chain));
  }
  return golden;
}

struct Kind {
  std::string name;
  std::string model;
  SpeculativeConfig speculation;
};

inline std::vector<std::int32_t> tree_of(const char* text) {
  return parse_token_tree(json::value(text), "tree").value();
}

inline ModelRunnerConfig runner_config(std::int64_t max_num_batched_tokens, StateRows states) {
  ModelRunnerConfig config;
  config.num_blocks = 64;
  config.max_num_batched_tokens = max_num_batched_tokens;
  config.max_num_seqs = 4;
  config.max_sampled_rows = 8;
  config.max_model_len = 128;
  config.kv_cache_dtype = DType::kF32;
  config.activation_mode = ActivationMode::kFloat32;
  config.states = states;
  return config;
}

// A model and what drafts for it, step by step, with one request.
class Steps {
 public:
  // `draft_rows`: of a step of the layers.
  Steps(const Kind& kind, const Golden& golden, std::int64_t draft_rows = 64)
      : golden_(golden), device_(1, op_table(choose_level().value())) {
    EngineArgs args;
    args.model = kind.model;
    args.speculation = kind.speculation;
    const ModelBundle bundle = open_model(kind.model, {}).value();
    auto draft = open_draft_model(args, bundle);
    EXPECT_TRUE(draft.ok()) << draft.status().to_string();
    model_ = Model::load(bundle.spec, *bundle.weights, 128, device_, {}).value();
    ModelRunnerConfig config = runner_config(96, StateRows::kFinal);
    config.inner_layers = (*draft)->inner_layers;
    if (!config.inner_layers.empty()) config.states = StateRows::kInner;
    runner_ = ModelRunner::create(*model_, device_, config).value();
    DraftSizes sizes = {.runner = runner_config(draft_rows, StateRows::kLast),
                        .kv_groups = {KvGroup{}}};
    sizes.runner.token_map = (*draft)->token_map;
    drafter_ =
        load_draft_model(**draft, sizes, kind.speculation.token_tree, *model_, device_).value();
    SamplingParams params;
    params.temperature = 0;
    params.ignore_eos = true;
    params_ = std::make_shared<const SamplingParams>(params);
    EXPECT_TRUE(drafter_->begin({.id = kId,
                                 .max_tokens = 128,
                                 .num_prompt_tokens = static_cast<std::int32_t>(golden.num_prompt),
                                 .sampling_params = params_}));
  }

  std::size_t num_known() const { return known_.size(); }

  // Computes the prompt's tokens up to `end`, whether the drafter sees that or not.
  void read_prompt(std::size_t end, bool seen = true) {
    known_.assign(golden_.token_ids.begin(),
                  golden_.token_ids.begin() + static_cast<std::ptrdiff_t>(golden_.num_prompt));
    step(end, {}, seen);
  }

  // Computes the last known token, and guesses behind it.
  void decode(const std::vector<TokenId>& drafts = {}) { step(known_.size(), drafts, true); }

  std::vector<TokenId> guess(std::int32_t most) {
    Draft draft;
    const DraftWish wish = {.request_id = kId, .tokens = known_, .most = most, .draft = &draft};
    drafter_->draft({&wish, 1});
    return draft.tokens;
  }

  // The tree that is wished for.
  Draft guess_tree(const std::vector<std::int32_t>& parents) {
    Draft draft;
    const DraftWish wish = {.request_id = kId,
                            .tokens = known_,
                            .most = static_cast<std::int32_t>(parents.size()),
                            .draft = &draft,
                            .parents = parents};
    drafter_->draft({&wish, 1});
    return draft;
  }
  // Each choice of two for a place, as the reference has them.
  void expect_tree(const std::vector<std::int32_t>& parents) {
    const std::vector<TokenId>& all = golden_.guesses.at(known_.size() - golden_.num_prompt - 1);
    const auto count = static_cast<std::int32_t>(parents.size());
    const GuessPlaces places = places_of(parents, count);
    std::vector<TokenId> expected;
    for (std::size_t i = 0; i < parents.size(); ++i) {
      expected.push_back(all[static_cast<std::size_t>(2 * places[i].depth + places[i].choice)]);
    }
    const Draft draft = guess_tree(parents);
    EXPECT_EQ(draft.tokens, expected) << "after " << known_.size() << " tokens";
    EXPECT_EQ(draft.parents, parents);
  }

  // The next `count` tokens, as the reference has them.
  std::vector<TokenId> next(std::size_t count) const {
    const auto begin = golden_.token_ids.begin() + static_cast<std::ptrdiff_t>(known_.size());
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

  void expect_guesses(std::int32_t most) {
    const std::vector<TokenId>& all = golden_.guesses.at(known_.size() - golden_.num_prompt - 1);
    EXPECT_THAT(guess(most), ::testing::ElementsAreArray(all.begin(), all.begin() + most))
        << "after " << known_.size() << " tokens";
  }

 private:
  static constexpr RequestId kId = 7;

  void step(std::size_t end, const std::vector<TokenId>& drafts, bool seen) {
    SchedulerOutput plan;
    if (num_computed_ == 0) {
      plan.new_requests.push_back({.request_id = kId,
                                   .num_tokens = static_cast<std::int32_t>(known_.size()),
                                   .num_prompt_tokens = static_cast<std::int32_t>(known_.size()),
                                   .sampling_params = params_,
                                   .num_blocks = 8});
      plan.new_token_ids = known_;
      plan.new_block_ids.resize(8);
      std::iota(plan.new_block_ids.begin(), plan.new_block_ids.end(), 0);
    }
    plan.draft_token_ids = drafts;
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      plan.draft_parents.push_back(static_cast<std::int32_t>(i) - 1);
    }
    plan.scheduled.push_back(
        {.request_id = kId,
         .num_computed_tokens = static_cast<std::int32_t>(num_computed_),
         .num_scheduled_tokens = static_cast<std::int32_t>(end - num_computed_ + drafts.size()),
         .use = end == known_.size() ? RowUse::kTokens : RowUse::kNothing,
         .num_drafts = static_cast<std::int32_t>(drafts.size())});
    plan.total_num_scheduled_tokens = plan.scheduled[0].num_scheduled_tokens;
    drafter_->read(kId, known_);
    ModelRunnerOutput result;
    ASSERT_TRUE(runner_->forward(plan, result).ok());
    ASSERT_TRUE(runner_->sample({}, result).ok());
    num_computed_ = end;
    for (const SampledToken& token : result.sampled) {
      EXPECT_EQ(token.token_id, golden_.token_ids[known_.size()]);
      known_.push_back(token.token_id);
    }
    if (!result.sampled.empty()) num_computed_ = known_.size() - 1;
    if (seen) drafter_->computed(plan, result);
  }

  const Golden& golden_;
  CpuDevice device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<ModelRunner> runner_;
  std::unique_ptr<Drafter> drafter_;
  std::shared_ptr<const SamplingParams> params_;
  std::vector<TokenId> known_;
  std::size_t num_computed_ = 0;
};

}  // namespace quire::test
