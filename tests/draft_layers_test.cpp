// Layers that draft from a model's states guess what the reference guesses (scripts/goldens/
// draft_layers.py), however the tokens before were computed: prompts whole and in parts, tokens one
// by one and several at once, with right drafts and wrong ones. And what cannot draft is refused.
#include <algorithm>
#include <fstream>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "draft/token_tree.h"
#include "engine/draft_model_parts.h"
#include "kernels/cpu_device.h"
#include "support/test_models.h"
#include "weights/temp_folder.h"

namespace quire::test {
namespace {

using ::testing::HasSubstr;

constexpr RequestId kId = 7;

struct Golden {
  std::vector<TokenId> token_ids;
  std::size_t num_prompt = 0;
  // Of each position after the prompt: a chain, or two choices of each head.
  std::vector<std::vector<TokenId>> guesses;
};

// One after the other, where they are lists of lists.
std::vector<TokenId> ids_of(const json::value& list) {
  std::vector<TokenId> ids;
  for (const json::value& id : list.as_array()) {
    const std::vector<TokenId> parts =
        id.is_array() ? ids_of(id) : std::vector{id.to_number<TokenId>()};
    ids.insert(ids.end(), parts.begin(), parts.end());
  }
  return ids;
}

Golden read_golden(const std::string& name) {
  const json::value file = read_json_file(family_golden(name, "drafts.json"), 1U << 20).value();
  Golden golden;
  golden.token_ids = ids_of(file.as_object().at("token_ids"));
  golden.num_prompt = file.as_object().at("num_prompt").to_number<std::size_t>();
  for (const json::value& chain : file.as_object().at("guesses").as_array()) {
    golden.guesses.push_back(ids_of(chain));
  }
  return golden;
}

struct Kind {
  std::string name;
  std::string model;
  SpeculativeConfig speculation;
};

std::vector<Kind> kinds() {
  const SpeculativeConfig mtp = {.method = SpeculativeMethod::kMtp, .num_speculative_tokens = 8};
  std::vector<Kind> all;
  for (const char* name : {"glm4_moe_mtp", "deepseek_v3_mtp"}) {
    all.push_back({name, family_model(name, "hf"), mtp});
  }
  all.push_back({"llama_eagle",
                 family_model("llama", "hf"),
                 {.method = SpeculativeMethod::kEagle,
                  .num_speculative_tokens = 8,
                  .model = family_model("llama_eagle", "hf")}});
  return all;
}

std::vector<std::int32_t> tree_of(const char* text) {
  return parse_token_tree(json::value(text), "tree").value();
}

// All choices of four heads, but not on every path.
constexpr const char* kMedusaTree =
    "[(0,), (0, 0), (1,), (0, 1), (0, 0, 0), (1, 0), (0, 0, 0, 0), (0, 0, 1), (0, 0, 0, 1)]";

std::vector<Kind> medusa_kinds() {
  std::vector<Kind> all;
  for (const char* name : {"llama_medusa", "llama_medusa_vllm"}) {
    all.push_back({name,
                   family_model("llama", "hf"),
                   {.method = SpeculativeMethod::kMedusa,
                    .num_speculative_tokens = 9,
                    .model = family_model(name, "hf"),
                    .token_tree = tree_of(kMedusaTree)}});
  }
  return all;
}

ModelRunnerConfig runner_config(std::int64_t max_num_batched_tokens, StateRows states) {
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
    runner_ = ModelRunner::create(*model_, device_, runner_config(96, StateRows::kFinal)).value();
    const DraftSizes sizes = {.runner = runner_config(draft_rows, StateRows::kLast),
                              .kv_groups = {KvGroup{}}};
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

TEST(DraftLayers, GuessAsTheReferenceOneByOne) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const Golden golden = read_golden(kind.name);
    Steps steps(kind, golden);
    steps.read_prompt(golden.num_prompt);
    steps.expect_guesses(5);
    for (std::size_t i = 1; i < golden.guesses.size(); ++i) {
      steps.decode();
      steps.expect_guesses(static_cast<std::int32_t>(1 + i % 5));
    }
  }
}

// Some parts wait, more than may wait are read at once; eight rows are a step of the layers.
TEST(DraftLayers, GuessTheSameAfterPartsAndDrafts) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const Golden golden = read_golden(kind.name);
    for (const std::int64_t draft_rows : {8, 64}) {
      Steps steps(kind, golden, draft_rows);
      steps.read_prompt(3);
      steps.read_prompt(31);
      steps.read_prompt(golden.num_prompt);
      steps.expect_guesses(3);
      steps.decode();
      steps.decode(steps.next(3));  // all right
      steps.expect_guesses(5);
      std::vector<TokenId> drafts = steps.next(3);
      drafts[1] = drafts[1] == 5 ? 6 : 5;
      steps.decode(drafts);  // one right
      steps.expect_guesses(4);
      steps.decode();
      steps.expect_guesses(5);
    }
  }
}

// Where the beginning is not seen, they guess from what they see.
TEST(DraftLayers, GuessWithoutTheBeginning) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const Golden golden = read_golden(kind.name);
    Steps steps(kind, golden);
    steps.read_prompt(16, /*seen=*/false);
    steps.read_prompt(golden.num_prompt);
    EXPECT_EQ(steps.guess(5).size(), 5U);
    EXPECT_TRUE(steps.guess(5).empty());  // without a state for it
    steps.decode();
    EXPECT_EQ(steps.guess(2).size(), 2U);
  }
}

TEST(Medusa, HeadsGuessAsTheReference) {
  for (const Kind& kind : medusa_kinds()) {
    SCOPED_TRACE(kind.name);
    const Golden golden = read_golden(kind.name);
    Steps steps(kind, golden);
    steps.read_prompt(31);
    EXPECT_TRUE(steps.guess(4).empty());  // nothing was drawn yet
    steps.read_prompt(golden.num_prompt);
    steps.expect_tree(tree_of(kMedusaTree));
    steps.decode();
    steps.expect_tree(tree_of("[(0,)]"));
    steps.decode(steps.next(3));  // all right
    steps.expect_tree(tree_of("[(0,), (1,), (1, 0), (1, 1)]"));
    std::vector<TokenId> drafts = steps.next(3);
    drafts[1] = drafts[1] == 5 ? 6 : 5;
    steps.decode(drafts);  // one right
    steps.expect_tree(tree_of(kMedusaTree));
    while (steps.num_known() < golden.token_ids.size()) {
      steps.decode();
      steps.expect_tree(tree_of("[(0,), (0, 0), (0, 0, 0), (0, 0, 0, 0)]"));
    }
  }
}

Status status_of(const std::string& model, const SpeculativeConfig& speculation) {
  EngineArgs args;
  args.model = model;
  args.max_model_len = 128;
  args.max_num_seqs = 2;
  args.speculation = speculation;
  return Engine::create(args, {}).status();
}

TEST(DraftLayers, WhatCannotDraftIsRefused) {
  const SpeculativeConfig mtp = {.method = SpeculativeMethod::kMtp, .num_speculative_tokens = 2};
  const Status none = status_of(family_model("llama", "hf"), mtp);
  EXPECT_EQ(none.code(), StatusCode::kConfig);
  EXPECT_THAT(none.message(), HasSubstr("no layer that predicts tokens"));
  // config.json says that there is one.
  const Status missing = status_of(family_model("glm4_moe", "hf"), mtp);
  EXPECT_EQ(missing.code(), StatusCode::kBadModel);
  EXPECT_THAT(missing.message(), HasSubstr("model.layers.3.eh_proj.weight is missing"));

  const auto eagle = [](const std::string& model) {
    return SpeculativeConfig{
        .method = SpeculativeMethod::kEagle, .num_speculative_tokens = 2, .model = model};
  };
  EXPECT_EQ(status_of(family_model("llama", "hf"), eagle("/nowhere")).code(),
            StatusCode::kNotFound);
  const Status whole = status_of(family_model("llama", "hf"), eagle(family_model("llama", "hf")));
  EXPECT_EQ(whole.code(), StatusCode::kBadModel);
  EXPECT_THAT(whole.message(), HasSubstr("fc.weight is missing"));
  const Status sizes = status_of(tiny_llama("hf"), eagle(family_model("llama_eagle", "hf")));
  EXPECT_EQ(sizes.code(), StatusCode::kConfig);
  EXPECT_THAT(sizes.message(), HasSubstr("that of the model"));
}

TEST(DraftLayers, Eagle3IsRefusedByName) {
  const testing::TempFolder folder;
  std::filesystem::copy(family_model("llama_eagle", "hf"), folder.path());
  json::value config = read_json_file(folder.path() / "config.json", 1U << 20).value();
  config.as_object()["architectures"] = json::array({"LlamaForCausalLMEagle3"});
  std::ofstream(folder.path() / "config.json") << json::serialize(config);
  const Status status = status_of(
      family_model("llama", "hf"),
      {.method = SpeculativeMethod::kEagle, .num_speculative_tokens = 2, .model = folder.path()});
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("EAGLE-3"));
}

// A copy of a family's folder whose config.json says otherwise.
class ChangedFolder {
 public:
  ChangedFolder(const std::string& family, const json::object& changes) {
    std::filesystem::copy(family_model(family, "hf"), folder_.path());
    json::value config = read_json_file(path("config.json"), 1U << 20).value();
    for (const auto& change : changes) config.as_object()[change.key()] = change.value();
    std::ofstream(path("config.json")) << json::serialize(config);
  }
  std::filesystem::path path(const char* file) const { return folder_.path() / file; }

  Status status(const std::string& model) const {
    return status_of(model, {.method = SpeculativeMethod::kMedusa,
                             .num_speculative_tokens = 2,
                             .model = folder_.path(),
                             .token_tree = tree_of("[(0,), (0, 0)]")});
  }

 private:
  testing::TempFolder folder_;
};

TEST(Medusa, HeadsOfAnotherModelAreRefused) {
  const std::string llama = family_model("llama", "hf");
  EXPECT_TRUE(ChangedFolder("llama_medusa", {}).status(llama).ok());
  EXPECT_TRUE(ChangedFolder("llama_medusa", {{"medusa_num_heads", 2}}).status(llama).ok());
  const auto expect = [](const Status& status, StatusCode code, const char* what) {
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(status.message(), HasSubstr(what));
    EXPECT_THAT(status.message(), HasSubstr("method \"medusa\""));
  };
  expect(ChangedFolder("llama_medusa", {{"medusa_num_heads", 5}}).status(llama),
         StatusCode::kBadModel, "tensor 4.0.linear.weight is missing");
  expect(ChangedFolder("llama_medusa", {{"medusa_num_heads", 0}}).status(llama),
         StatusCode::kBadModel, "medusa_num_heads is 0");
  expect(ChangedFolder("llama_medusa", {}).status(tiny_llama("hf")), StatusCode::kConfig,
         "tensor 0.2.weight has shape [128, 32]; the model asks for [320, 32]");
  expect(ChangedFolder("llama_medusa_vllm", {{"hidden_size", 64}}).status(llama),
         StatusCode::kConfig, "hidden_size is 64, that of the model 32");
  expect(ChangedFolder("llama_medusa_vllm", {{"vocab_size", 32000}}).status(llama),
         StatusCode::kConfig, "vocab_size is 32000, that of the model 128");
  expect(ChangedFolder("llama_medusa_vllm", {{"truncated_vocab_size", 64}}).status(llama),
         StatusCode::kConfig, "tensor lm_heads.0.weight has shape [128, 32]");
  expect(ChangedFolder("llama_eagle", {{"medusa_num_heads", 2}}).status(llama),
         StatusCode::kBadModel, "there are no heads");
  expect(ChangedFolder("llama", {}).status(llama), StatusCode::kBadModel, "medusa_num_heads");
  const ChangedFolder pickle("llama_medusa", {});
  std::filesystem::rename(pickle.path("model.safetensors"), pickle.path("medusa_lm_head.pt"));
  expect(pickle.status(llama), StatusCode::kBadModel, "medusa_lm_head.pt");
  const ChangedFolder named("llama_medusa", {});
  std::filesystem::rename(named.path("model.safetensors"),
                          named.path("medusa_lm_head.safetensors"));
  EXPECT_TRUE(named.status(llama).ok());
}

}  // namespace
}  // namespace quire::test
