#include "apps/batch_runner.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <streambuf>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine_core.h"
#include "engine/output_processor.h"
#include "load/model_bundle.h"
#include "sim/simulated_executor.h"
#include "sim/virtual_clock.h"
#include "sim/wrapped_executor.h"

namespace quire {
namespace {

using testing::HasSubstr;

constexpr std::int32_t kVocabSize = 256;
constexpr std::int32_t kBlockSize = 16;
constexpr std::int32_t kNumBlocks = 512;

// The engine's own threads and scheduler over an executor without a model. A token id is a byte of
// the prompt.
// Computes nothing before so many requests have come, so that their order of arrival is no race.
class GatedExecutor final : public WrappedExecutor {
 public:
  GatedExecutor(const SimulatedExecutorConfig& config, VirtualClock& clock,
                const std::atomic<RequestId>& next_id, const std::atomic<RequestId>& first_step_at)
      : WrappedExecutor(std::make_unique<SimulatedExecutor>(config, clock)),
        next_id_(next_id),
        first_step_at_(first_step_at) {}
  Status submit(const SchedulerOutput& plan) override {
    while (next_id_ < first_step_at_) std::this_thread::yield();
    return WrappedExecutor::submit(plan);
  }

 private:
  const std::atomic<RequestId>& next_id_;
  const std::atomic<RequestId>& first_step_at_;
};

class SimulatedBackend final : public BatchBackend {
 public:
  SimulatedBackend()
      : text_(open_text(QUIRE_SOURCE_DIR "/tests/data/tiny_llama/hf").value()),
        outputs_(*text_.tokenizer, [this](RequestId id) { core_.abort(id); }),
        core_({.max_num_seqs = 32,
               .max_num_batched_tokens = 1024,
               .max_model_len = 1024,
               .block_size = kBlockSize,
               .num_blocks = kNumBlocks,
               // What a prompt finds there depends on when others came, and records say it.
               .enable_prefix_caching = false,
               .admission = {},
               .eos_token_ids = {}},
              std::make_unique<GatedExecutor>(
                  SimulatedExecutorConfig{
                      .block_size = kBlockSize, .num_blocks = kNumBlocks, .vocab_size = kVocabSize},
                  virtual_clock_, next_id_, first_step_at_),
              outputs_, RunningConstraints(*text_.tokenizer, clock_), clock_, {}, nullptr, nullptr,
              std::nullopt, pins_) {}

  ~SimulatedBackend() override {
    core_.stop();
    outputs_.stop();
  }

  Result<std::vector<TokenId>> encode(const BatchPrompt& prompt) const override {
    const auto& text = std::get<std::string>(prompt);
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::int64_t max_model_len() const override { return 1024; }
  // No step before `count` more requests have been submitted.
  void wait_for_requests(RequestId count) { first_step_at_ = next_id_ + count; }

  Result<RequestId> submit(GenerateRequest request, OutputSink sink) override {
    QUIRE_RETURN_IF_ERROR(request.params.validate(kVocabSize));
    const RequestId id = next_id_;
    next_id_ += static_cast<RequestId>(request.params.n);
    auto params = std::make_shared<const SamplingParams>(std::move(request.params));
    outputs_.add(id, request.prompt_token_ids, *params, std::move(sink));
    QUIRE_RETURN_IF_ERROR(core_.add({.request_id = id,
                                     .prompt_token_ids = std::move(request.prompt_token_ids),
                                     .sampling_params = std::move(params)},
                                    {}, {}));
    return id;
  }
  void abort(RequestId request_id) override { core_.abort(request_id); }

 private:
  SteadyClock clock_;
  VirtualClock virtual_clock_;
  std::atomic<RequestId> next_id_ = 1;
  std::atomic<RequestId> first_step_at_ = 1;
  TextBundle text_;
  OutputProcessor outputs_;
  PinRegistry pins_;
  EngineCore core_;
};

// Lines made as they are read.
class GeneratedLines : public std::streambuf {
 public:
  GeneratedLines(std::int64_t count, std::function<std::string(std::int64_t)> make)
      : count_(count), make_(std::move(make)) {}

  std::int64_t lines_read() const { return next_ - 1; }

 protected:
  int_type underflow() override {
    if (next_ > count_) return traits_type::eof();
    line_ = make_(next_++) + "\n";
    setg(line_.data(), line_.data(), line_.data() + line_.size());
    return traits_type::to_int_type(line_[0]);
  }

 private:
  std::int64_t count_;
  std::function<std::string(std::int64_t)> make_;
  std::int64_t next_ = 1;
  std::string line_;
};

std::string line_of(std::int64_t number) {
  return R"({"prompt":"prompt )" + std::to_string(number) + R"(","max_tokens":)" +
         std::to_string(1 + number * 7 % 13) + R"(,"ignore_eos":true})";
}

// In KiB; 0 where /proc does not tell.
std::int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::int64_t value = 0;
    if (word == "VmRSS:" && status >> value) return value;
  }
  return 0;
}

class BatchRunnerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("quire_batch_" + std::to_string(::getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    path_ = (folder_ / "out.jsonl").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<BatchSummary> run(const std::string& input, const BatchOptions& options = {}) {
    std::istringstream stream(input);
    OutputFile output = OutputFile::create(path_).value();
    return run_batch(backend_, stream, output, options);
  }

  Result<BatchSummary> resume(const std::string& input, BatchOptions options = {}) {
    QUIRE_ASSIGN_OR_RETURN(DoneRecords done, DoneRecords::read(path_));
    QUIRE_ASSIGN_OR_RETURN(OutputFile output, OutputFile::append(path_, done.whole_bytes()));
    options.done = &done;
    std::istringstream stream(input);
    return run_batch(backend_, stream, output, options);
  }

  std::string written() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::vector<json::object> records() const {
    std::vector<json::object> all;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      all.push_back(parse_json(line, "record").value().get_object());
    }
    return all;
  }

  static std::string lines(std::int64_t count) {
    std::string text;
    for (std::int64_t i = 1; i <= count; ++i) text += line_of(i) + "\n";
    return text;
  }

  std::filesystem::path folder_;
  std::string path_;
  SimulatedBackend backend_;
};

TEST_F(BatchRunnerTest, RecordsComeInInputOrder) {
  const auto summary = run(lines(200) + "broken\n");
  ASSERT_TRUE(summary.ok()) << summary.status().to_string();
  EXPECT_EQ(summary->num_requests, 201);
  EXPECT_EQ(summary->num_errors, 1);
  const auto all = records();
  ASSERT_EQ(all.size(), 201U);
  for (std::size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(all[i].at("id"), static_cast<std::int64_t>(i + 1));
    EXPECT_EQ(all[i].at("usage").at("completion_tokens"),
              1 + static_cast<std::int64_t>(i + 1) * 7 % 13);
  }
  EXPECT_EQ(all[200].at("line"), 201);
}

TEST_F(BatchRunnerTest, UnorderedHoldsTheSameRecordsAndDoesNotWaitForTheFirst) {
  // The first line takes longest; the window is smaller than the number of lines.
  std::string input = R"({"id":"slow","prompt":"x","max_tokens":800,"ignore_eos":true})"
                      "\n" +
                      lines(100);
  ASSERT_TRUE(run(input, {.window = 16}).ok());
  auto ordered = records();
  EXPECT_EQ(ordered.front().at("id"), "slow");
  backend_.wait_for_requests(16);
  ASSERT_TRUE(run(input, {.unordered = true, .window = 16}).ok());
  auto unordered = records();
  ASSERT_EQ(unordered.size(), ordered.size());
  EXPECT_NE(unordered.front().at("id"), "slow");
  const auto by_id = [](const json::object& a, const json::object& b) {
    return json::serialize(a.at("id")) < json::serialize(b.at("id"));
  };
  std::ranges::sort(ordered, by_id);
  std::ranges::sort(unordered, by_id);
  EXPECT_EQ(ordered, unordered);
}

TEST_F(BatchRunnerTest, SeveralOutputsOfOnePromptAreOneRecord) {
  ASSERT_TRUE(run(R"({"prompt":"abc","n":3,"max_tokens":4,"ignore_eos":true,"logprobs":0})").ok());
  const auto all = records();
  ASSERT_EQ(all.size(), 1U);
  const auto& outputs = all[0].at("outputs").as_array();
  ASSERT_EQ(outputs.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(outputs[i].at("index").to_number<std::size_t>(), i);
    EXPECT_EQ(outputs[i].at("token_ids").as_array().size(), 4U);
    EXPECT_EQ(outputs[i].at("logprobs").as_array().size(), 4U);
  }
  EXPECT_EQ(all[0].at("usage").at("completion_tokens"), 12);
}

TEST_F(BatchRunnerTest, ResumeCompletesWhatATornRunHasLeft) {
  const std::string input = lines(60);
  ASSERT_TRUE(run(input).ok());
  const std::string whole = written();
  // Cut everywhere that matters: between records, within one, within the first, and nothing.
  std::vector<std::size_t> cuts = {0, 1, whole.size() - 1, whole.size()};
  for (std::size_t at = 0; (at = whole.find('\n', at + 997)) != std::string::npos;) {
    cuts.insert(cuts.end(), {at, at + 1, at + 20});
  }
  for (const std::size_t cut : cuts) {
    std::ofstream(path_, std::ios::trunc) << whole.substr(0, cut);
    const auto summary = resume(input);
    ASSERT_TRUE(summary.ok()) << summary.status().to_string();
    EXPECT_EQ(written(), whole) << cut;
    const auto kept = std::count(whole.begin(), whole.begin() + static_cast<long>(cut), '\n');
    EXPECT_EQ(summary->num_skipped, kept);
    EXPECT_EQ(summary->num_requests, 60 - kept);
  }
}

TEST_F(BatchRunnerTest, ResumeTakesNewLinesAndRefusesChangedOnes) {
  ASSERT_TRUE(run(lines(5) + "broken\n").ok());
  const std::string before = written();
  // More lines, and others with ids of their own: no matter.
  auto summary = resume(R"({"id":"new","prompt":"x"})"
                        "\n");
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->num_requests, 1);
  EXPECT_TRUE(written().starts_with(before));
  // A line that has become another one.
  summary = resume(R"({"prompt":"a different and longer prompt"})");
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(summary.status().message(), HasSubstr("line 1 has the id 1"));
  // Two lines with one id, of which one would be lost.
  summary = resume(R"({"id":"a","prompt":"x"})"
                   "\n"
                   R"({"id":"a","prompt":"y"})");
  ASSERT_FALSE(summary.ok());
  EXPECT_THAT(summary.status().message(), HasSubstr("line 2 has the id \"a\", as line 1 has"));
}

TEST_F(BatchRunnerTest, ResumeRefusesAFileThatHoldsSomethingElse) {
  for (const char* content : {"a diary\n", "{\"id\":1}\n", "{\"id\":1,\"outputs\":[]}\n"}) {
    std::ofstream(path_, std::ios::trunc) << content;
    const auto summary = resume(lines(1));
    ASSERT_FALSE(summary.ok()) << content;
    EXPECT_EQ(summary.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(written(), content);
  }
}

TEST_F(BatchRunnerTest, AnInterruptLeavesOutWhatWasRunningForResumeToRun) {
  ASSERT_TRUE(run(lines(60)).ok());
  const std::string whole = written();
  std::atomic<int> asked = 0;
  auto summary = run(lines(60), {.window = 8, .interrupted = [&] { return ++asked > 30; }});
  ASSERT_TRUE(summary.ok());
  EXPECT_LT(summary->num_requests, 60);
  EXPECT_THAT(written(), testing::Not(HasSubstr("abort")));
  ASSERT_TRUE(resume(lines(60)).ok());
  auto resumed = records();
  std::set<std::int64_t> ids;
  for (const auto& record : resumed) ids.insert(record.at("id").as_int64());
  EXPECT_EQ(ids.size(), 60U);
  EXPECT_EQ(resumed.size(), 60U);
}

TEST_F(BatchRunnerTest, AFullDiskEndsTheRunWithOneError) {
  std::istringstream stream(lines(50));
  OutputFile output = OutputFile::create("/dev/full").value();
  const auto summary = run_batch(backend_, stream, output, {});
  ASSERT_FALSE(summary.ok());
  EXPECT_EQ(summary.status().code(), StatusCode::kIoError);
  EXPECT_THAT(summary.status().message(), HasSubstr("/dev/full: No space left"));
}

// 50,000 lines with 400-byte prompts: their tokens alone would take 80 MB.
TEST_F(BatchRunnerTest, MemoryIsBoundedOverFiftyThousandLines) {
  constexpr std::int64_t kLines = 50'000;
  constexpr std::int64_t kMostGrowthKib = 24 * 1024;
  const std::string prompt(400, 'p');
  std::int64_t settled = 0;
  std::int64_t most = 0;
  GeneratedLines buffer(kLines, [&](std::int64_t number) {
    if (number == 5'000) settled = resident_kib();
    if (number % 500 == 0) most = std::max(most, resident_kib());
    return R"({"id":"request-)" + std::to_string(number) + R"(","prompt":")" +
           std::to_string(number) + prompt + R"(","max_tokens":4,"ignore_eos":true})";
  });
  std::istream stream(&buffer);
  OutputFile output = OutputFile::create(path_).value();
  const auto summary = run_batch(backend_, stream, output, {.window = 128});
  ASSERT_TRUE(summary.ok()) << summary.status().to_string();
  EXPECT_EQ(summary->num_requests, kLines);
  EXPECT_EQ(summary->num_errors, 0);
  EXPECT_EQ(summary->output_tokens, 4 * kLines);
  if (settled == 0) GTEST_SKIP() << "/proc/self/status does not tell the resident memory";
  std::printf("resident after 5,000 lines: %lld KiB, at most later: %lld KiB\n",
              static_cast<long long>(settled), static_cast<long long>(most));
  EXPECT_LT(most - settled, kMostGrowthKib);
}

}  // namespace
}  // namespace quire
