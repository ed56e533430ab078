// Microseconds to sample a row, on one thread, at the vocabularies of SmolLM2 and Gemma 3: logits
// of a normal distribution (standard deviation 3), context of 512 tokens.
#include <functional>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>

#include "exec/sampling_test_support.h"

namespace quire {
namespace {

constexpr std::size_t kRows = 8;

void run(benchmark::State& state, const SamplingParams& params) {
  const auto vocab_size = static_cast<std::size_t>(state.range(0));
  const std::vector<float> logits = random_logits(vocab_size * kRows, 3, 1);
  std::vector<TokenId> token_ids(512);
  for (std::size_t i = 0; i < token_ids.size(); ++i) {
    token_ids[i] = static_cast<TokenId>(i * 7919 % vocab_size);
  }
  std::vector<InputBatch::SampleRow> rows(kRows);
  for (std::size_t i = 0; i < kRows; ++i) {
    rows[i] = {.context = {&params, token_ids, 256}, .seed = i};
  }
  SamplerUnderTest sampler(static_cast<std::int64_t>(vocab_size), kRows, 1);
  ModelRunnerOutput output;
  while (state.KeepRunning()) {
    output.clear();
    for (auto& row : rows) row.seed += kRows;
    if (!sampler.sample(logits, rows, output).ok()) state.SkipWithError("not sampled");
  }
  state.counters["us_per_row"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(kRows) * 1e-6,
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

SamplingParams with(const std::function<void(SamplingParams&)>& set) {
  SamplingParams params;
  set(params);
  return params;
}

const bool kRegistered = [] {
  const std::vector<std::pair<std::string, SamplingParams>> kinds = {
      {"greedy", with([](auto& p) { p.temperature = 0; })},
      {"temperature", with([](auto& p) { p.temperature = 0.8; })},
      {"top_k_50", with([](auto& p) { p.top_k = 50; })},
      {"top_p_0.9", with([](auto& p) { p.top_p = 0.9; })},
      {"top_k_50_top_p_0.9", with([](auto& p) {
         p.top_k = 50;
         p.top_p = 0.9;
       })},
      {"min_p_0.05", with([](auto& p) { p.min_p = 0.05; })},
      {"penalties", with([](auto& p) {
         p.repetition_penalty = 1.2;
         p.frequency_penalty = 0.5;
         p.presence_penalty = 0.5;
       })},
      {"penalties_top_k_50_top_p_0.9", with([](auto& p) {
         p.repetition_penalty = 1.2;
         p.frequency_penalty = 0.5;
         p.presence_penalty = 0.5;
         p.top_k = 50;
         p.top_p = 0.9;
       })},
      {"greedy_logprob", with([](auto& p) {
         p.temperature = 0;
         p.logprobs = 0;
       })},
      {"greedy_logprobs_20", with([](auto& p) {
         p.temperature = 0;
         p.logprobs = 20;
       })},
  };
  for (const auto& [name, params] : kinds) {
    benchmark::RegisterBenchmark(("BM_Sample/" + name).c_str(),
                                 [params = params](benchmark::State& state) { run(state, params); })
        ->Arg(49152)
        ->Arg(262144)
        ->Unit(benchmark::kMicrosecond);
  }
  return true;
}();

}  // namespace
}  // namespace quire
