// Layers that draft from a model's states guess what the reference guesses (scripts/goldens/
// draft_layers.py), however the tokens before were computed: prompts whole and in parts, tokens one
// by one and several at once, with right drafts and wrong ones. And what cannot draft is refused.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include <boost/json/value_from.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "support/draft_steps.h"
#include "support/test_models.h"
#include "weights/safetensors.h"
#include "weights/temp_folder.h"

namespace quire::test {
namespace {

using ::testing::HasSubstr;

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
  all.push_back({"llama_eagle3",
                 family_model("llama", "hf"),
                 {.method = SpeculativeMethod::kEagle3,
                  .num_speculative_tokens = 8,
                  .model = family_model("llama_eagle3", "hf")}});
  return all;
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

// Further choices beside the chain: what else was probable there.
TEST(DraftLayers, TreesHaveTheChainAndOtherChoices) {
  for (Kind kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const Golden golden = read_golden(kind.name);
    kind.speculation.token_tree = tree_of("[(0,), (0, 0), (1,), (0, 0, 0), (0, 1), (2,)]");
    Steps steps(kind, golden);
    steps.read_prompt(golden.num_prompt);
    for (std::size_t i = 0; i < 4; ++i) {
      const Draft draft = steps.guess_tree(kind.speculation.token_tree);
      ASSERT_EQ(draft.parents, kind.speculation.token_tree);
      const std::vector<TokenId>& chain = golden.guesses.at(i);
      EXPECT_EQ(draft.tokens[0], chain[0]);
      EXPECT_EQ(draft.tokens[1], chain[1]);
      EXPECT_EQ(draft.tokens[3], chain[2]);
      EXPECT_THAT((std::set<TokenId>{draft.tokens[0], draft.tokens[2], draft.tokens[5]}),
                  ::testing::SizeIs(3));
      EXPECT_NE(draft.tokens[4], chain[1]);
      steps.decode();
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

// The tensors of a checkpoint, each as dtype, shape and bytes, in one file.
struct WrittenTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string data;
};
void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, WrittenTensor>& tensors) {
  json::object header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t begin = data.size();
    data += tensor.data;
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", json::value_from(tensor.shape)},
                    {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = json::serialize(header);
  const std::uint64_t length = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file << text << data;
}

// EAGLE-3's layer with a vocabulary of the even tokens alone, as published checkpoints have it.
void reduce_vocabulary(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::map<std::string, WrittenTensor> tensors;
  const auto source = open_safetensors(from).value();
  for (const TensorInfo& tensor : source->tensors()) {
    tensors[tensor.name] = {"BF16", tensor.shape,
                            std::string(tensor.data.begin(), tensor.data.end())};
  }
  WrittenTensor& head = tensors["lm_head.weight"];
  const std::size_t row = head.data.size() / static_cast<std::size_t>(head.shape[0]);
  WrittenTensor offsets = {"I64", {head.shape[0] / 2}, {}};
  WrittenTensor known = {"BOOL", {head.shape[0]}, {}};
  std::string rows;
  for (std::int64_t token = 0; token < head.shape[0]; ++token) {
    const bool even = token % 2 == 0;
    known.data.push_back(even ? 1 : 0);
    if (!even) continue;
    rows += head.data.substr(static_cast<std::size_t>(token) * row, row);
    const std::int64_t offset = token - token / 2;
    offsets.data.append(reinterpret_cast<const char*>(&offset), sizeof(offset));
  }
  head.shape[0] /= 2;
  head.data = rows;
  tensors["d2t"] = offsets;
  tensors["t2d"] = known;
  tensors["embed_tokens.weight"] = {"BF16", {1, 1}, "12"};  // not read
  write_safetensors(to / "model.safetensors", tensors);
  json::value config = read_json_file(from / "config.json", 1U << 20).value();
  config.as_object()["draft_vocab_size"] = head.shape[0];
  std::ofstream(to / "config.json") << json::serialize(config);
}

TEST(DraftLayers, AReducedVocabularyIsMapped) {
  const testing::TempFolder folder;
  reduce_vocabulary(family_model("llama_eagle3", "hf"), folder.path());
  const Golden golden = read_golden("llama_eagle3", "guesses_even");
  Steps steps(
      {"reduced",
       family_model("llama", "hf"),
       {.method = SpeculativeMethod::kEagle3, .num_speculative_tokens = 8, .model = folder.path()}},
      golden);
  steps.read_prompt(golden.num_prompt);
  steps.expect_guesses(5);
  steps.decode(steps.next(2));
  steps.expect_guesses(5);
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

  Status status(const std::string& model,
                SpeculativeMethod method = SpeculativeMethod::kMedusa) const {
    if (method != SpeculativeMethod::kMedusa) {
      return status_of(model,
                       {.method = method, .num_speculative_tokens = 2, .model = folder_.path()});
    }
    return status_of(model, {.method = SpeculativeMethod::kMedusa,
                             .num_speculative_tokens = 2,
                             .model = folder_.path(),
                             .token_tree = tree_of("[(0,), (0, 0)]")});
  }

 private:
  testing::TempFolder folder_;
};

TEST(DraftLayers, LayersOfAnotherModelAreRefused) {
  const auto expect = [](const json::object& changes, StatusCode code, const char* what,
                         const std::string& model = family_model("llama", "hf")) {
    const Status status =
        ChangedFolder("llama_eagle3", changes).status(model, SpeculativeMethod::kEagle3);
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(what));
    EXPECT_THAT(status.message(), HasSubstr("method \"eagle3\""));
  };
  EXPECT_TRUE(ChangedFolder("llama_eagle3", {})
                  .status(family_model("llama", "hf"), SpeculativeMethod::kEagle3)
                  .ok());
  expect({}, StatusCode::kConfig, "that of the model", tiny_llama("hf"));
  expect({{"vocab_size", 1000}}, StatusCode::kConfig, "vocab_size is 1000, that of the model 128");
  expect({{"draft_vocab_size", 64}}, StatusCode::kBadModel, "lm_head.weight has shape [128, 32]");
  expect({{"draft_vocab_size", 129}}, StatusCode::kBadModel, "draft_vocab_size is 129");
  expect({{"num_hidden_layers", 2}}, StatusCode::kUnimplemented, "2 layers");
  expect({{"architectures", {"Eagle3Speculator"}}}, StatusCode::kUnimplemented,
         "\"Eagle3Speculator\" is not supported as EAGLE-3");
  expect({{"eagle_aux_hidden_state_layer_ids", {0, 1, 3}}}, StatusCode::kConfig,
         "before the layers 0, 1, 3; the model has 2");
  expect({{"eagle_aux_hidden_state_layer_ids", {0, 1}}}, StatusCode::kBadModel,
         "fc.weight has shape [32, 96]");
  expect({{"eagle_aux_hidden_state_layer_ids", {0, "1"}}}, StatusCode::kBadModel,
         "eagle_aux_hidden_state_layer_ids");
  const Status first = ChangedFolder("llama_eagle", {{"architectures", {"LlamaForCausalLMEagle3"}}})
                           .status(family_model("llama", "hf"), SpeculativeMethod::kEagle);
  EXPECT_EQ(first.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(first.message(), HasSubstr("method \"eagle3\""));
}

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
