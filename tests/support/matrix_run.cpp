#include "support/matrix_run.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <iostream>
#include <thread>

#include <gtest/gtest.h>

#include "engine/api.h"
#include "engine/assembly.h"
#include "engine/compute_device.h"
#include "kernels/level_test_support.h"
#include "serve/models/test_held_engine.h"
#include "support/collector.h"
#include "support/remote_device.h"
#include "support/test_models.h"
#include "weights/temp_folder.h"

namespace quire::test {
namespace {

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

Result<std::unique_ptr<Engine>> make_engine(const Corpus& corpus, EngineArgs args) {
  args.n_gpu_layers = corpus.n_gpu_layers;
  args.n_cpu_moe = corpus.n_cpu_moe;
  if (!args.n_gpu_layers && args.n_cpu_moe == 0) return Engine::create(args, {});
  QUIRE_ASSIGN_OR_RETURN(const ComputeDevice device, choose_device(args.device));
  return create_engine(args, {}, device.gpu ? device : remote_beside_processor());
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
    EXPECT_TRUE(make_engine(corpus, args).ok());
  }
  if (setting.offload) {
    args.kv_offload_path = kept.emplace().path();
    args.kv_offloading_size = 0.03;
  }
  auto engine = make_engine(corpus, args);
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
    engine = make_engine(corpus, args);
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
  const auto engine = make_engine(corpus, args);
  EXPECT_TRUE(engine.ok()) << engine.status().to_string();
  return engine.ok() ? (*engine)->info() : EngineInfo();
}

}  // namespace

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

}  // namespace quire::test
