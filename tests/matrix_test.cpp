// The configuration matrix: one greedy corpus under every setting that must not change a token.
// Within a level, tokens and log probabilities are compared bit for bit.
#include <algorithm>
#include <chrono>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "engine/api.h"
#include "engine/compute_device.h"
#include "kernels/level_test_support.h"
#include "serve/models/test_held_engine.h"
#include "support/collector.h"
#include "support/matrix_settings.h"
#include "support/test_models.h"
#include "weights/temp_folder.h"

namespace quire::test {
namespace {

struct Corpus {
  std::string model;
  std::vector<std::string> prompts;
  std::int64_t max_tokens = 32;
  std::int32_t max_model_len = 160;
  std::string kv_cache_dtype = "auto";
  std::string drafter = {};  // of method "eagle"; where others name a model, it is `model`
  bool everywhere = false;   // every setting on every level
  bool states = false;       // some layers keep a state: as keeps_states() says
  // What the text of prompt i must be: element i % size; null, and where there are none: anything.
  std::vector<std::shared_ptr<const StructuredOutputsParams>> constraints = {};
};

std::vector<Output> take(Collector& collector) {
  std::vector<Output> outputs;
  for (auto& request : collector.take()) outputs.push_back(std::move(request.at(0)));
  return outputs;
}

// A block of the first prompt stays in the prefix cache, where it and its last users may find it.
void pin_beginning(Engine& engine, const Corpus& corpus, const Setting& setting) {
  GenerateRequest request;
  request.prompt_token_ids = *engine.encode_text(corpus.prompts[0]);
  request.prompt_token_ids.resize(static_cast<std::size_t>(setting.block_size));
  request.pin = {.owner = "", .name = "beginning", .ttl = std::chrono::hours(1)};
  std::promise<Status> told;
  const auto id = engine.submit(std::move(request), [&](const RequestOutput& output) {
    if (output.request_finished) told.set_value(output.error);
  });
  ASSERT_TRUE(id.ok()) << id.status().to_string();
  const Status status = told.get_future().get();
  EXPECT_TRUE(status.ok()) << setting.name << ": " << status.to_string();
  EXPECT_EQ(engine.observe().num_pins, 1) << setting.name;
}

// Until all blocks that have left the prefix cache are in the files.
void wait_for_files(const Engine& engine) {
  for (int i = 0; i < 1000; ++i) {
    const EngineStats stats = engine.observe();
    if (stats.tier.blocks_written + stats.tier.blocks_dropped >= stats.blocks_offloaded) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ADD_FAILURE() << "blocks are not written";
}

std::vector<Output> run(const Corpus& corpus, const Setting& setting, IsaLevel level,
                        std::uint64_t kv_bytes_per_token) {
  const ForceIsa force(level);
  EngineArgs args;
  args.model = corpus.model;
  args.kv_cache_dtype = corpus.kv_cache_dtype;
  args.threads = setting.threads;
  args.block_size = setting.block_size;
  args.max_num_batched_tokens = setting.chunk;
  args.max_num_seqs = 16;
  args.max_model_len = corpus.max_model_len;
  args.enable_prefix_caching = setting.prefix_caching;
  args.max_step_ms = setting.max_step_ms;
  args.max_steps_in_flight = setting.max_steps_in_flight;
  args.jump_forward = setting.jump_forward;
  args.scheduling_policy = setting.policy;
  args.admission = setting.admission;
  args.max_pinned_share = setting.pinned ? 0.25 : 0;
  args.speculation = SpeculativeConfig::parse(setting.speculation).value();
  const bool drafts_itself = args.speculation && args.speculation->computes();
  if (drafts_itself)
    args.speculation->model = corpus.drafter.empty() ? corpus.model : corpus.drafter;
  if (setting.preempt) {
    // Little more than one sequence of the greatest length; a draft model takes its part, and so do
    // the states of a prompt's blocks.
    args.kv_cache_memory_bytes = kv_bytes_per_token *
                                 (drafts_itself   ? 20
                                  : corpus.states ? 16
                                                  : 9) *
                                 static_cast<std::uint64_t>(corpus.max_model_len) / 8;
  }
  std::optional<testing::TempFolder> kept;
  if (setting.kept_weights) {
    args.packed_weights_cache = kept.emplace().path();
    EXPECT_TRUE(Engine::create(args, {}).ok());
  }
  if (setting.offload) {
    args.kv_offload_path = kept.emplace().path();
    args.kv_offloading_size = 0.03;
  }
  auto engine = Engine::create(args, {});
  EXPECT_TRUE(engine.ok()) << engine.status().to_string();
  if (!engine.ok()) return {};
  if (setting.pinned) pin_beginning(**engine, corpus, setting);
  std::int64_t num_prompt_tokens = 0;
  const auto run_all = [&](Collector& collector) {
    // Too many for the pool at once, however late this thread is with the last ones.
    std::optional<HeldEngine> held;
    if (setting.preempt) held.emplace(**engine);
    for (std::size_t i = 0; i < corpus.prompts.size(); ++i) {
      GenerateRequest request;
      request.prompt_token_ids = *(*engine)->encode_text(corpus.prompts[i]);
      num_prompt_tokens += std::ssize(request.prompt_token_ids);
      request.params.temperature = 0;
      request.params.max_tokens = corpus.max_tokens;
      request.params.ignore_eos = true;
      request.params.logprobs = 0;  // the tokens' own, whose bits are compared
      request.drafts = setting.drafts;
      request.priority = -static_cast<std::int32_t>(i % 3);
      request.user = std::to_string(i % 3);
      request.deadline = std::chrono::milliseconds(100 * (7 * i % 5));
      request.cache_salt = setting.salted ? std::to_string(i % 2) : "";
      if (!corpus.constraints.empty()) {
        request.params.structured_outputs = corpus.constraints[i % corpus.constraints.size()];
        request.params.ensure_close = i % 2 == 1 && i % 5 < 3;
        request.params.return_forced_tokens = true;
      }
      const auto id = (*engine)->submit(std::move(request), collector.sink(i));
      EXPECT_TRUE(id.ok()) << id.status().to_string();
      if (!id.ok()) return false;
      if (!setting.batch) collector.wait_for(i + 1);
    }
    held.reset();
    collector.wait_for(corpus.prompts.size());
    return true;
  };
  Collector collector(corpus.prompts.size());
  if (!run_all(collector)) return {};
  std::vector<Output> outputs = take(collector);
  EngineStats before;
  if (setting.offload) {
    if (setting.preempt) {
      EXPECT_GT((*engine)->observe().num_preemptions_by_swap, 0) << setting.name;
    }
    wait_for_files(**engine);
    engine = Status::unavailable("it ends before the next one begins");
    engine = Engine::create(args, {});
    EXPECT_TRUE(engine.ok()) << engine.status().to_string();
    Collector second(corpus.prompts.size());
    if (!engine.ok() || !run_all(second)) return {};
    outputs = take(second);
    EXPECT_GT((*engine)->observe().external_prefix_cache_hits, 0) << setting.name;
    EXPECT_EQ((*engine)->observe().blocks_fetch_failed, 0) << setting.name;
  }
  if (setting.again) {
    before = (*engine)->observe();
    num_prompt_tokens = 0;
    Collector second(corpus.prompts.size());
    if (!run_all(second)) return {};
    outputs = take(second);
    const std::int64_t hits = (*engine)->observe().prefix_cache_hits - before.prefix_cache_hits;
    const std::int64_t most = num_prompt_tokens - std::ssize(corpus.prompts);
    const std::int64_t within_blocks = corpus.states ? setting.block_size - 1 : 0;
    EXPECT_GE(hits, most - within_blocks * std::ssize(corpus.prompts))
        << setting.name << ": all tokens but each prompt's last one";
  }
  const EngineStats stats = (*engine)->observe();
  if (setting.preempt) {
    EXPECT_GT(stats.num_preemptions, 0);
  }
  if (setting.shared_tokens > 0) {
    EXPECT_GE(stats.prefix_cache_hits, setting.shared_tokens) << setting.name;
  }
  EXPECT_EQ(stats.blocks_leaked, 0);
  EXPECT_EQ(stats.draft_tokens, stats.draft_tokens_accepted + stats.draft_tokens_rejected);
  std::int64_t num_drafts = 0;
  for (const Output& output : outputs) {
    num_drafts += output.last.num_accepted_drafts + output.last.num_rejected_drafts;
  }
  EXPECT_EQ(num_drafts, stats.draft_tokens - before.draft_tokens) << setting.name;
  if (setting.drafts.value_or(0) > 0) {
    EXPECT_GT(num_drafts, 0) << setting.name;
  }
  return outputs;
}

EngineInfo info_of(const Corpus& corpus) {
  EngineArgs args;
  args.model = corpus.model;
  args.kv_cache_dtype = corpus.kv_cache_dtype;
  args.max_num_seqs = 1;
  const auto engine = Engine::create(args, {});
  EXPECT_TRUE(engine.ok()) << engine.status().to_string();
  return engine.ok() ? (*engine)->info() : EngineInfo();
}

// Every setting on the best level of this processor. Scheduling and drafts know no levels: on the
// others it is the joined settings, unless the corpus says otherwise.
void check_matrix(const Corpus& corpus, const std::vector<Setting>& settings) {
  const EngineInfo info = info_of(corpus);
  const std::uint64_t kv_bytes = info.kv_bytes_per_token;
  // No layer has a window or a state: blocks may be offloaded.
  const auto& groups = info.plan.kv_groups;
  const bool keeps_all = groups.size() == 1 && groups[0].window == 0 && groups[0].state_bytes == 0;
  for (const IsaLevel level : kIsaLevels) {
    if (!level_can_run(level)) {
      std::cout << "skipped: " << why_level_is_skipped(level) << "\n";
      continue;
    }
    Corpus small = corpus;
    std::vector<Setting> some = settings;
    if (!keeps_all) std::erase_if(some, [](const Setting& each) { return each.offload; });
    if (corpus.states) {
      std::erase_if(some, [](const Setting& setting) { return setting.speculation != "{}"; });
    }
    if (!corpus.everywhere && (level_is_slow(level) || level != available_levels().back())) {
      std::erase_if(some, [](const Setting& setting) { return !setting.joined; });
    }
    if (level == IsaLevel::kRef && corpus.model == smollm2()) {
      // The scalar level is some hundred times slower: fewer tokens, and the settings joined.
      small.prompts.resize(2);
      small.max_tokens = 3;
      some = {{.name = "batch, block 1, chunk 4, ngram",
               .block_size = 1,
               .chunk = 4,
               .speculation = kNgram}};
    }
    const auto alone =
        run(small, {.name = "alone", .batch = false, .prefix_caching = false}, level, kv_bytes);
    ASSERT_EQ(alone.size(), small.prompts.size());
    for (const Output& output : alone) {
      ASSERT_EQ(output.token_ids.size(), static_cast<std::size_t>(small.max_tokens));
    }
    for (const Setting& setting : some) {
      const auto outputs = run(small, setting, level, kv_bytes);
      ASSERT_EQ(outputs.size(), alone.size());
      for (std::size_t i = 0; i < alone.size(); ++i) {
        EXPECT_EQ(outputs[i].token_ids, alone[i].token_ids)
            << isa_level_name(level) << ", " << setting.name << ", prompt " << i;
        EXPECT_TRUE(outputs[i] == alone[i])  // text, log probabilities, forced tokens
            << isa_level_name(level) << ", " << setting.name << ", prompt " << i;
      }
    }
  }
}

TEST(Matrix, Stories260k) {
  QUIRE_REQUIRE_FILE(stories260k());
  Corpus corpus = {.model = stories260k(), .prompts = {}};
  for (int i = 0; i < 16; ++i) {
    std::string prompt = i % 2 == 0 ? "Once upon a time" : "Tom and Lily went to the park";
    for (int j = 0; j < i; ++j) prompt += j % 3 == 0 ? ", there was a cat" : " and a red ball";
    corpus.prompts.push_back(std::move(prompt));
  }
  corpus.max_model_len = 256;
  check_matrix(corpus, all_settings());
}

std::vector<std::string> longer_and_longer(int count) {
  std::vector<std::string> prompts;
  for (int i = 0; i < count; ++i) {
    prompts.push_back(std::string(static_cast<std::size_t>(1 + 4 * i), 'a') + " the cat");
  }
  return prompts;
}

void check_tiny_llama(const std::string& model, bool everywhere) {
  Corpus corpus = {.model = model, .prompts = longer_and_longer(16), .everywhere = everywhere};
  corpus.max_tokens = 48;
  check_matrix(corpus, all_settings());
}

std::shared_ptr<const StructuredOutputsParams> constraint_of(
    std::optional<std::string> StructuredOutputsParams::*kind, const std::string& text) {
  StructuredOutputsParams params;
  params.*kind = text;
  return std::make_shared<const StructuredOutputsParams>(params);
}

// Texts that are held to a grammar beside others that are not; some end before the last token.
TEST(Matrix, TinyLlamaUnderConstraints) {
  Corpus corpus = {.model = tiny_llama("tiny_llama_bf16.gguf"), .prompts = longer_and_longer(16)};
  corpus.max_tokens = 48;
  corpus.constraints = {
      constraint_of(&StructuredOutputsParams::regex, "([a-z]{2,7}, )*[a-z]+\\."), nullptr,
      constraint_of(&StructuredOutputsParams::grammar,
                    "root ::= item+\nitem ::= \"[\" item* \"]\" | [0-9]+ \";\""),
      constraint_of(
          &StructuredOutputsParams::regex,
          "(yes|no), said the dog on the sea\\. The (cat|fox) sells [0-9]+ pages, [a-z]+"),
      // Reasoning whose end is forced, then calls.
      constraint_of(&StructuredOutputsParams::structural_tag, R"({"type": "answer",
          "reasoning": "qwen3", "start": "open", "thinking_budget": 6, "calls": {
          "dialect": "hermes", "required": true, "parallel": true, "functions": [{"name": "get",
          "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}},
          "required": ["city"]}}]}})")};
  std::vector<Setting> settings = all_settings();
  settings.push_back({.name = "batch, one by one", .jump_forward = false});
  check_matrix(corpus, settings);
}

// Text that a grammar forces is not guessed where layers keep a state, but computed.
TEST(Matrix, StatesUnderConstraints) {
  Corpus corpus = {
      .model = family_model("lfm2", "hf"), .prompts = longer_and_longer(6), .states = true};
  corpus.max_tokens = 24;
  const char* const forced = "((yes|no), said the dog on the sea\\. ){20}";
  corpus.constraints = {constraint_of(&StructuredOutputsParams::regex, forced), nullptr};
  check_matrix(corpus, {{.name = "batch", .block_size = 4, .chunk = 16, .joined = true}});
}

// Each type of KV cache, and sequences of more than one range of keys (256), so that threads share
// the keys of a decoded token; four of them begin with the same blocks, which are read once for
// all.
class KvCacheMatrix : public ::testing::TestWithParam<const char*> {};

TEST_P(KvCacheMatrix, SameTokens) {
  QUIRE_REQUIRE_FILE(stories260k());
  Corpus corpus = {.model = stories260k(), .prompts = {}};
  corpus.kv_cache_dtype = GetParam();
  const auto add = [&](int repeats, std::string_view end) {
    std::string prompt = "Once upon a time";
    for (int i = 0; i < repeats; ++i) prompt += " there was a big red ball and a cat";
    corpus.prompts.push_back(prompt.append(end));
  };
  for (const int repeats : {0, 3, 28, 1, 9}) add(repeats, "");
  for (const char* end : {" and a dog", ", and Tom", " who ran"}) add(28, end);
  corpus.max_tokens = 8;
  corpus.max_model_len = 400;
  std::vector<Setting> settings = all_settings();
  std::erase_if(settings, [](const Setting& setting) { return setting.preempt; });
  // The first long prompt takes many steps; the others find its blocks, and decode beside it.
  for (Setting& setting : settings) {
    if (setting.name == "batch, chunk 16, deadline") setting.shared_tokens = 3 * 256;
  }
  check_matrix(corpus, settings);
}

INSTANTIATE_TEST_SUITE_P(Types, KvCacheMatrix,
                         ::testing::Values("float32", "bfloat16", "fp8", "int8"),
                         [](const auto& param) { return std::string(param.param); });

TEST(Matrix, TinyLlamaOfQuantizedWeights) {
  check_tiny_llama(tiny_llama("tiny_llama_q4_0.gguf"), false);
}

TEST(Matrix, TinyLlamaOfBfloat16) { check_tiny_llama(tiny_llama("tiny_llama_bf16.gguf"), true); }

// All compact encodings. The tokenizer knows few characters.
TEST(Matrix, TinyLlamaOfCompactWeights) {
  const auto device = choose_device(EngineArgs().device);
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  if (device->gpu) GTEST_SKIP() << "GPUs have no kernels for them";
  Corpus corpus = {.model = tiny_encodings("tiny_compact"), .prompts = {}};
  for (int i = 0; i < 16; ++i) {
    corpus.prompts.push_back(std::string(static_cast<std::size_t>(1 + 4 * i), 'A') + "BCAB");
  }
  corpus.max_tokens = 48;
  check_matrix(corpus, all_settings());
}

// Windows, norms of heads and outputs, biases and several rope bases change nothing either. Prompts
// shorter and longer than the windows, which are 16 to 20 tokens.
void check_small(const std::string& model, bool states = false) {
  Corpus corpus = {.model = model, .prompts = {}, .states = states};
  for (int i = 0; i < 12; ++i) {
    std::string prompt = i % 2 == 0 ? "the cat" : "she sells";
    for (int j = 0; j < i; ++j) prompt += j % 3 == 0 ? " sea shells" : " and the dog";
    corpus.prompts.push_back(std::move(prompt));
  }
  corpus.max_tokens = 24;
  check_matrix(corpus, all_settings());
}

class FamilyMatrix : public ::testing::TestWithParam<std::string_view> {};

TEST_P(FamilyMatrix, SameTokens) {
  check_small(family_model(GetParam(), "hf"), keeps_states(GetParam()));
}

// What drafts from the model's states: MTP, EAGLE, EAGLE-3, and Medusa's heads, which guess trees.
class DraftMatrix : public ::testing::TestWithParam<const char*> {};

TEST_P(DraftMatrix, SameTokens) {
  const std::string method = GetParam();
  Corpus corpus = {.model = family_model(method == "mtp" ? "glm4_moe_mtp" : "llama", "hf"),
                   .prompts = longer_and_longer(12)};
  corpus.drafter = family_model("llama_" + method, "hf");
  corpus.max_tokens = 40;
  const std::string config =
      R"({"method": ")" + method + R"(", )" + (method == "mtp" ? "" : R"("model": "m", )");
  std::vector<Setting> settings = settings_that_draft(config + R"("num_speculative_tokens": 8})");
  for (Setting& setting : settings) {
    if (setting.drafts.value_or(0) < 5) continue;  // these guess trees
    setting.speculation = config + R"("speculative_token_tree":
        "[(0,), (0, 0), (1,), (0, 0, 0), (0, 1), (2,), (0, 0, 1), (0, 0, 0, 0)]"})";
  }
  check_matrix(corpus, settings);
}

INSTANTIATE_TEST_SUITE_P(Methods, DraftMatrix,
                         ::testing::Values("mtp", "eagle", "eagle3", "medusa"),
                         [](const auto& param) { return std::string(param.param); });

// In GGUF they come in other tensors: the two parts of what latents are made into, experts with
// their biases.
TEST(Matrix, LatentAttentionAndExpertsOfGguf) {
  for (const std::string_view family : {"deepseek_v3", "gpt_oss"}) {
    check_small(family_model(family, "model.gguf"));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyMatrix, ::testing::ValuesIn(kFamilies),
                         [](const auto& param) { return std::string(param.param); });

// Integer codes with zero points, from tensors that lie apart.
class QuantizedMatrix : public ::testing::TestWithParam<std::string_view> {};

TEST_P(QuantizedMatrix, SameTokens) { check_small(quantized_model(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Kinds, QuantizedMatrix, ::testing::ValuesIn(kQuantizedKinds),
                         [](const auto& param) { return std::string(param.param); });

TEST(Matrix, SmolLm2) {
  QUIRE_REQUIRE_FILE(smollm2());
  Corpus corpus = {
      .model = smollm2(),
      .prompts = {"The capital of France is", "Once upon a time", "def fibonacci(n):\n",
                  "1, 2, 3, 4,", "안녕하세요, 저는",
                  "The quick brown fox jumps over the lazy dog. The quick brown fox",
                  "Water boils at", "🙂 🙃", "In 1969, humans first", "SELECT name FROM",
                  "To be, or not to be, that is", "Photosynthesis is the process by which plants",
                  "a a a a a a a a", "Dear Sir or Madam,\n\nI am writing to",
                  "#include <stdio.h>\nint main", "Q: What is the largest planet?\nA:"}};
  corpus.max_tokens = 24;
  corpus.max_model_len = 64;
  check_matrix(corpus, all_settings());
}

}  // namespace
}  // namespace quire::test
