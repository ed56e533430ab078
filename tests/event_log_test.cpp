// The engine with an event log: what the log holds replays to the same schedule, whatever happens.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "apps/event_log_files.h"
#include "apps/simulated_engine.h"
#include "base/random.h"
#include "engine/event_log/replay.h"
#include "load/model_bundle.h"
#include "serve/models/test_held_engine.h"
#include "support/collector.h"
#include "support/test_models.h"

namespace quire::test {
namespace {

constexpr int kNumRequests = 1000;

class EventLogEngineTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "event_log_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    args_.engine.model = tiny_llama("hf");
    args_.engine.event_log = (folder_ / "log").string();
    args_.engine.max_num_seqs = 32;
    args_.engine.max_num_batched_tokens = 128;
    args_.engine.max_model_len = 256;
    args_.step_time = std::chrono::microseconds(300);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Of texts that end early.
  static std::shared_ptr<const StructuredOutputsParams> constraint(int i) {
    StructuredOutputsParams params;
    params.regex = i % 2 == 0 ? "[a-z]{3}" : "([a-z]{1,6} ){2,5}";
    return std::make_shared<const StructuredOutputsParams>(params);
  }

  // Sends requests of random lengths from a thread of its own, aborts some of them, and waits for
  // the end of all. The engine begins with half of them, so that they crowd it however late this
  // thread is with the others, of which some are aborted in mid-answer.
  EngineStats run() {
    auto engine = create_simulated_engine(args_, {});
    EXPECT_TRUE(engine.ok()) << engine.status().to_string();
    if (!engine.ok()) return {};
    std::mutex mutex;
    std::condition_variable changed;
    int num_ended = 0;
    auto random = [counter = std::uint64_t{0}](std::uint64_t below) mutable {
      return random_bits(7, counter++) % below;
    };
    std::vector<RequestId> ids;
    std::optional<HeldEngine> hold(**engine);
    for (int i = 0; i < kNumRequests; ++i) {
      if (i == kNumRequests / 2) hold.reset();
      GenerateRequest request;
      request.prompt_token_ids.assign(1 + random(60), static_cast<TokenId>(5 + random(3)));
      for (TokenId& token : request.prompt_token_ids) {
        if (random(8) == 0) token = static_cast<TokenId>(random(64));
      }
      request.params.max_tokens = 1 + static_cast<std::int64_t>(random(60));
      request.params.ignore_eos = random(2) == 0;
      request.params.n = random(10) == 0 ? 2 : 1;
      if (i % 7 == 1) request.params.structured_outputs = constraint(i);
      // Cannot be: it ends with an error when its text is complete.
      if (i % 35 == 1) request.params.min_tokens = request.params.max_tokens;
      request.external_id = "request-" + std::to_string(i);
      if (drafts_ && i % 3 > 0) request.drafts = i % 7;
      const auto id = (*engine)->submit(std::move(request), [&](const RequestOutput& output) {
        if (!output.request_finished) return;
        const std::lock_guard lock(mutex);
        ++num_ended;
        changed.notify_one();
      });
      EXPECT_TRUE(id.ok()) << id.status().to_string();
      if (!id.ok()) break;
      ids.push_back(*id);
      if (random(5) == 0) (*engine)->abort(ids[random(ids.size())]);
      if (random(20) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::minutes(5),
                                 [&] { return num_ended == static_cast<int>(ids.size()); }));
    lock.unlock();
    // Not observe(), which tells of the last step only after its outputs.
    std::promise<EngineStats> stats;
    (*engine)->inspect([&](const EngineState* state) { stats.set_value(state->stats()); });
    return stats.get_future().get();
  }

  // Each request has its own number of drafts, where there are any.
  bool drafts_ = false;

  Status replay(Replay& replay, ReplayNotes& notes) const {
    QUIRE_ASSIGN_OR_RETURN(const auto files, event_log_files(args_.engine.event_log));
    return replay_files(
        files, replay, notes, [] { return false; }, [](std::uint64_t, std::uint64_t) {});
  }

  // What the log holds gives the schedule that it tells of.
  void replay_alike(Replay& replayed, ReplayNotes& notes) const {
    const Status status = replay(replayed, notes);
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_FALSE(replayed.difference()) << replayed.difference()->what;
  }

  std::filesystem::path folder_;
  SimulatedEngineArgs args_;
};

// Which drafts were computed was the governor's choice, made of times: the log has them.
TEST_F(EventLogEngineTest, DraftsReplayIdentically) {
  args_.engine.speculation =
      SpeculativeConfig::parse(R"({"method": "ngram", "num_speculative_tokens": 8,
                                   "prompt_lookup_min": 1, "prompt_lookup_max": 3})")
          .value();
  args_.engine.event_log_segment_bytes = 1 << 15;
  args_.engine.event_log_segments = 1000;
  drafts_ = true;
  const EngineStats stats = run();
  EXPECT_GT(stats.draft_tokens_rejected, 1000);
  EXPECT_GT(stats.draft_tokens_accepted, 20);
  Replay replayed;
  ReplayNotes notes;
  ASSERT_NO_FATAL_FAILURE(replay_alike(replayed, notes));
  const ReplaySummary& summary = replayed.summary();
  EXPECT_GT(summary.num_states_compared, 2U);
  // The engine may have taken a last step, which only removed requests, after it was looked at.
  EXPECT_GE(summary.num_steps, static_cast<std::uint64_t>(stats.num_steps));
  EXPECT_LE(summary.num_steps, static_cast<std::uint64_t>(stats.num_steps + 1));
  EXPECT_EQ(summary.num_draft_tokens, static_cast<std::uint64_t>(stats.draft_tokens));
  EXPECT_GE(summary.num_accepted_drafts, static_cast<std::uint64_t>(stats.draft_tokens_accepted));
}

// Trees of drafts. Of a model, whose texts repeat themselves: those of a simulated one are random,
// and no second guess is ever right.
TEST_F(EventLogEngineTest, TreesOfDraftsReplayIdentically) {
  args_.engine.speculation =
      SpeculativeConfig::parse(R"({"method": "suffix", "num_speculative_tokens": 12,
                                   "suffix_decoding_max_spec_factor": 4,
                                   "suffix_decoding_min_token_prob": 0,
                                   "suffix_decoding_max_cached_requests": 100,
                                   "suffix_decoding_max_tree_width": 4})")
          .value();
  args_.engine.block_size = 2;
  EngineStats stats;
  {
    auto engine = Engine::create(args_.engine, {});
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    constexpr std::size_t kMost = 64;
    Collector collector(kMost);
    for (std::size_t i = 0; i < kMost; ++i) {
      GenerateRequest request;
      request.prompt_token_ids.assign(1 + i % 20, static_cast<TokenId>(5 + i % 7));
      request.params.seed = i;
      request.params.temperature = 0.4;
      request.params.max_tokens = 120;
      request.drafts = static_cast<std::int32_t>(i % 13);
      ASSERT_TRUE((*engine)->submit(std::move(request), collector.sink(i)).ok());
    }
    collector.wait_for(kMost);
    stats = (*engine)->observe();
  }
  Replay replayed;
  ReplayNotes notes;
  ASSERT_NO_FATAL_FAILURE(replay_alike(replayed, notes));
  const ReplaySummary& summary = replayed.summary();
  EXPECT_EQ(summary.num_draft_tokens, static_cast<std::uint64_t>(stats.draft_tokens));
  EXPECT_GT(summary.num_branched_drafts, 100U);
  EXPECT_GT(summary.num_adopted_blocks, 0U);
}

TEST_F(EventLogEngineTest, AThousandRequestsWithAbortsAndPreemptionsReplayIdentically) {
  // Room for a fraction of what the requests that run at once come to need.
  args_.engine.block_size = 4;
  constexpr std::uint64_t kPoolTokens = 800;
  const auto bundle = open_model(args_.engine.model, "");
  ASSERT_TRUE(bundle.ok()) << bundle.status().to_string();
  args_.engine.kv_cache_memory_bytes =
      kPoolTokens * sizeof(std::uint16_t) *
      static_cast<std::uint64_t>(bundle->spec.kv_elements_per_token());
  const EngineStats stats = run();
  Replay replayed;
  ReplayNotes notes;
  ASSERT_NO_FATAL_FAILURE(replay_alike(replayed, notes));
  EXPECT_TRUE(notes.empty()) << notes[0];
  const ReplaySummary& summary = replayed.summary();
  EXPECT_GE(summary.num_added, static_cast<std::uint64_t>(kNumRequests));
  EXPECT_EQ(summary.num_added, summary.num_finished + summary.num_aborted);
  EXPECT_GT(summary.num_aborted, 50U);
  EXPECT_GT(summary.num_preemptions, 50U);
  EXPECT_GT(summary.num_steps, 500U);
  EXPECT_EQ(summary.num_lost, 0U);
  EXPECT_EQ(replayed.scheduler()->stats().output_tokens_sampled, stats.output_tokens_sampled);
  EXPECT_EQ(replayed.scheduler()->stats().num_preemptions, stats.num_preemptions);
  EXPECT_EQ(replayed.end_reason(), "the engine is shutting down");
  RecordProperty("steps", static_cast<int>(summary.num_steps));
  RecordProperty("preemptions", static_cast<int>(summary.num_preemptions));
}

// What was measured, and so where prompts were cut, is in the log.
TEST_F(EventLogEngineTest, StepsHeldToATimeReplayIdentically) {
  for (const std::optional<double> max_step_ms : {std::optional(1.0), std::optional<double>()}) {
    args_.token_time = std::chrono::microseconds(20);
    args_.engine.max_step_ms = max_step_ms;
    args_.engine.event_log = (folder_ / (max_step_ms ? "limit" : "auto")).string();
    run();
    Replay replayed;
    ReplayNotes notes;
    ASSERT_NO_FATAL_FAILURE(replay_alike(replayed, notes));
    EXPECT_GE(replayed.summary().num_added, static_cast<std::uint64_t>(kNumRequests));
    EXPECT_TRUE(replayed.scheduler()->pace().limited());
    EXPECT_GT(replayed.scheduler()->pace().cost.step, 0);
  }
}

TEST_F(EventLogEngineTest, EveryWayOfBatchingReplaysIdentically) {
  for (const std::string batching : {"static", "dynamic"}) {
    args_.engine.batching = batching;
    args_.engine.max_batch_delay_ms = 5;
    args_.engine.scheduling_policy = "priority";
    args_.engine.event_log = (folder_ / batching).string();
    run();
    SCOPED_TRACE(batching);
    Replay replayed;
    ReplayNotes notes;
    ASSERT_NO_FATAL_FAILURE(replay_alike(replayed, notes));
    EXPECT_GE(replayed.summary().num_added, static_cast<std::uint64_t>(kNumRequests));
  }
}

TEST_F(EventLogEngineTest, ALogThatCannotBeWrittenIsAnErrorAtTheStart) {
  std::ofstream(folder_ / "file") << "where a folder would have to be";
  args_.engine.event_log = (folder_ / "file" / "log").string();
  const auto engine = create_simulated_engine(args_, {});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.status().code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace quire::test
