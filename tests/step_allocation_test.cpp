// After its first steps, an engine's thread and its executor's allocate nothing while requests are
// only computed: the whole way of a step is counted, from taking commands to handing over the
// tokens.
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <optional>
#include <pthread.h>
#include <string>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>

#include "engine/api.h"
#include "engine/assembly.h"
#include "engine/compute_device.h"
#include "serve/models/test_held_engine.h"
#include "support/collector.h"
#include "support/test_models.h"

namespace {

// Of each thread.
thread_local std::int64_t num_allocations = 0;
std::atomic<std::int64_t> num_executor_allocations = 0;

bool is_executor() {
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return std::string_view(name.data()) == "quire-executor";
}

void* counted(std::size_t size, std::size_t alignment) {
  static thread_local const bool executor = is_executor();
  ++num_allocations;
  if (executor) ++num_executor_allocations;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return counted(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
// Where one of these is inlined and its operator new is not, GCC 12 warns of a pair that does not
// match.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace quire::test {
namespace {

constexpr std::size_t kNumRequests = 6;

// Six requests with different parameters, all there from the start; all have as many tokens in and
// out, so that none ends while others go on.
void run_wave(Engine& engine, TokenId first_token, std::atomic<std::int64_t>& received,
              const std::atomic<bool>& held) {
  Collector collector(kNumRequests);
  std::optional<HeldEngine> hold(engine);
  for (std::size_t i = 0; i < kNumRequests; ++i) {
    GenerateRequest request;
    for (TokenId token = 0; token < 60; ++token) {
      request.prompt_token_ids.push_back((first_token + token * static_cast<TokenId>(i + 1)) % 120);
    }
    SamplingParams& params = request.params;
    params.max_tokens = 90;
    params.ignore_eos = true;
    if (i == 1) params.top_k = 10;
    if (i == 2) params.top_p = 0.7;
    if (i == 3) params.repetition_penalty = 1.2;
    if (i == 4) params.logprobs = 5;
    if (i == 5) params.temperature = 0;
    const auto sink = [&, collect = collector.sink(i)](const RequestOutput& output) {
      while (held) std::this_thread::yield();
      received += std::ssize(output.token_ids);
      collect(output);
    };
    ASSERT_TRUE(engine.submit(std::move(request), sink).ok());
  }
  hold.reset();
  collector.wait_for(kNumRequests);
}

// The processor as two devices, of which the second has a part of the model.
ComputeDevice two_processors() {
  ComputeDevice device = choose_device("cpu").value();
  device.host = device.memory;
  device.memory.gpu = "another processor";
  return device;
}

// `args`: the model, and what the second device computes of it.
void expect_no_allocation(EngineArgs args, EngineProfile* profile) {
  args.threads = 2;
  args.block_size = 4;
  args.max_num_batched_tokens = 16;
  std::int64_t at_last_step = 0;
  std::size_t quiet_before = 0;  // steps before this one in which all requests ran
  std::int64_t num_counted = 0;
  std::int64_t num_allocated = 0;
  std::atomic<bool> counting = false;
  std::atomic<bool> held = false;  // the output thread
  std::atomic<std::int64_t> received = 0;
  std::int64_t produced = 0;
  const auto stepped = [&](const StepRecord& step) {
    const std::int64_t now = num_allocations + num_executor_allocations;
    const bool all = step.shares.size() == kNumRequests;
    if (counting && all && quiet_before > 1) {
      ++num_counted;
      num_allocated += now - at_last_step;
    }
    quiet_before = all ? quiet_before + 1 : 0;
    // The memory of results goes to and fro. First the output thread is some steps behind, so that
    // there is enough of it, all of full size; then never far behind, however busy the machine is.
    held = !counting && quiet_before > 2 && quiet_before < 10;
    while (!held && received < produced) std::this_thread::yield();
    for (const StepShare& share : step.shares) produced += share.use == RowUse::kTokens ? 1 : 0;
    at_last_step = num_allocations + num_executor_allocations;
  };
  const EngineObserver observer = {
      .planned = {}, .loaded = {}, .stepped = stepped, .profile = profile};
  const bool split = args.n_gpu_layers.has_value() || args.n_cpu_moe > 0;
  auto engine =
      split ? create_engine(args, observer, two_processors()) : Engine::create(args, observer);
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  run_wave(**engine, 3, received, held);  // vectors grow
  counting = true;
  run_wave(**engine, 101, received, held);
  engine->reset();
  EXPECT_GT(num_counted, 50);
  EXPECT_GT(num_executor_allocations, 0);  // its thread is the one that is looked for
  EXPECT_EQ(num_allocated, 0);
}

EngineArgs args_of(const std::string& model) {
  EngineArgs args;
  args.model = model;
  return args;
}

TEST(StepAllocation, TheEnginesThreadsAllocateNothing) {
  expect_no_allocation(args_of(tiny_llama("hf")), nullptr);
}

TEST(StepAllocation, NorDoTheyInAMixtureOfExperts) {
  expect_no_allocation(args_of(family_model("qwen2_moe", "hf")), nullptr);
}

TEST(StepAllocation, NorDoTheyWhereTwoDevicesCompute) {
  EngineArgs args = args_of(tiny_llama("hf"));
  args.n_gpu_layers = 2;
  expect_no_allocation(args, nullptr);
  args = args_of(family_model("qwen2_moe", "hf"));
  args.n_cpu_moe = 100;
  expect_no_allocation(args, nullptr);
}

TEST(StepAllocation, NorDoesItWhereItsTimeIsRecorded) {
  EngineProfile profile(1000);  // fewer than there are: the ring goes round
  expect_no_allocation(args_of(tiny_llama("hf")), &profile);
  EXPECT_GT(profile.engine.oldest(), 0U);
}

}  // namespace
}  // namespace quire::test
