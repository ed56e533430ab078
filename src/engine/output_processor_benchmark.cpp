// What a token costs from the engine thread's hand to a request's sink, which does nothing with it:
//   QUIRE_BENCHMARK_MODEL=a GGUF file or a model folder
#include <atomic>
#include <cstdlib>
#include <thread>

#include <benchmark/benchmark.h>

#include "engine/output_processor.h"
#include "load/model_bundle.h"

namespace quire {
namespace {

// Steps of one token for each of `range(0)` requests.
void BM_OutputProcessor(benchmark::State& state) {
  const char* model = std::getenv("QUIRE_BENCHMARK_MODEL");
  if (model == nullptr) return state.SkipWithError("set QUIRE_BENCHMARK_MODEL");
  const auto text = open_text(model);
  if (!text.ok()) return state.SkipWithError("the model cannot be read");
  const auto vocab_size = static_cast<TokenId>(text->tokenizer->vocab_size());
  const auto num_requests = static_cast<RequestId>(state.range(0));

  std::atomic<std::int64_t> received = 0;
  OutputProcessor outputs(*text->tokenizer, [](RequestId) {});
  const std::vector<TokenId> prompt = {1, 2, 3};
  for (RequestId id = 1; id <= num_requests; ++id) {
    outputs.add(id, prompt, {},
                [&](const RequestOutput&) { received.fetch_add(1, std::memory_order_relaxed); });
  }
  StepResult step;
  std::int64_t pushed = 0;
  TokenId token = 0;
  for (auto _ : state) {
    step.outputs.clear();
    step.result.clear();
    for (RequestId id = 1; id <= num_requests; ++id) {
      token = (token + 7919) % vocab_size;
      step.result.sampled.push_back({.request_id = id, .token_id = token, .logprob = -1});
      step.outputs.push_back({.request_id = id,
                              .first_sampled = static_cast<std::int32_t>(id - 1),
                              .num_sampled = 1,
                              .finished = nullptr});
    }
    outputs.push(step);
    pushed += static_cast<std::int64_t>(num_requests);
    while (received.load(std::memory_order_relaxed) < pushed) std::this_thread::yield();
  }
  outputs.push_all_failed({StatusCode::kCancelled, "the benchmark is over"});
  outputs.stop();
  state.SetItemsProcessed(pushed);
}
BENCHMARK(BM_OutputProcessor)->Arg(256)->UseRealTime();

}  // namespace
}  // namespace quire
