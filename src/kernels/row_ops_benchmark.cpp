// Row ops at the sizes of SmolLM2-135M, one row, one thread.
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/op_table.h"

namespace quire {
namespace {

std::vector<float> random_floats(std::size_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

void report(benchmark::State& state, std::int64_t elements) {
  state.SetItemsProcessed(state.iterations() * elements);
}

void BM_RmsNorm(benchmark::State& state, IsaLevel level) {
  const auto x = random_floats(576);
  std::vector<float> out(576);
  while (state.KeepRunning()) {
    op_table(level).rows.rms_norm(x.data(), x.data(), 1e-5F, 576, out.data());
    benchmark::ClobberMemory();
  }
  report(state, 576);
}

void BM_SiluAndMul(benchmark::State& state, IsaLevel level) {
  const auto x = random_floats(1536);
  std::vector<float> out(1536);
  while (state.KeepRunning()) {
    op_table(level).rows.silu_and_mul(x.data(), x.data(), 1536, out.data());
    benchmark::ClobberMemory();
  }
  report(state, 1536);
}

void BM_BestOfRow(benchmark::State& state, IsaLevel level) {
  const auto x = random_floats(49152);
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(op_table(level).rows.best_of_row(x.data(), 49152));
  }
  report(state, 49152);
}

void BM_LogSumExp(benchmark::State& state, IsaLevel level) {
  const auto x = random_floats(49152);
  const float largest = op_table(level).rows.best_of_row(x.data(), 49152).value;
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(op_table(level).rows.log_sum_exp(x.data(), 49152, largest));
  }
  report(state, 49152);
}

void BM_TokenWeights(benchmark::State& state, IsaLevel level) {
  const auto x = random_floats(49152);
  const float largest = op_table(level).rows.best_of_row(x.data(), 49152).value;
  std::vector<float> weights(x.size());
  std::vector<TokenBlock> blocks(static_cast<std::size_t>(TokenBlock::count(49152)));
  while (state.KeepRunning()) {
    op_table(level).rows.token_weights(x.data(), 49152, largest, 1.25F, weights.data(),
                                       blocks.data());
    benchmark::ClobberMemory();
  }
  report(state, 49152);
}

void BM_RopeAndCache(benchmark::State& state, IsaLevel level) {
  auto qkv = random_floats(std::size_t{15} * 64);
  // Angle zero, so that repeated rotation keeps the numbers.
  std::vector<float> table(64, 0.0F);
  for (std::size_t i = 0; i < 32; ++i) table[i] = 1.0F;
  const std::int32_t position = 0;
  const std::int64_t slot = 5;
  RopeAndCacheArgs args;
  args.qkv = qkv.data();
  args.num_tokens = 1;
  args.num_heads = 9;
  args.positions = &position;
  args.slot_mapping = &slot;
  args.rope_table = table.data();
  args.rotary_dim = 64;
  args.style = state.range(0) == 0 ? RopeStyle::kHalves : RopeStyle::kInterleaved;
  args.layout = {DType::kBF16, 16, 3, 64};
  std::vector<std::byte> kv(args.layout.block_bytes());
  args.kv = kv.data();
  while (state.KeepRunning()) {
    op_table(level).rows.rope_and_cache(args, {.token_end = 1, .head_end = args.all_heads()});
    benchmark::ClobberMemory();
  }
  report(state, std::int64_t{15} * 64);
}

// Registers the levels that this processor has.
const bool kRowOpsRegistered = [] {
  for (const IsaLevel level : available_levels()) {
    const std::string name(isa_level_name(level));
    benchmark::RegisterBenchmark(("BM_RmsNorm/" + name).c_str(), BM_RmsNorm, level);
    benchmark::RegisterBenchmark(("BM_SiluAndMul/" + name).c_str(), BM_SiluAndMul, level);
    benchmark::RegisterBenchmark(("BM_BestOfRow/" + name).c_str(), BM_BestOfRow, level);
    benchmark::RegisterBenchmark(("BM_LogSumExp/" + name).c_str(), BM_LogSumExp, level);
    benchmark::RegisterBenchmark(("BM_TokenWeights/" + name).c_str(), BM_TokenWeights, level);
    benchmark::RegisterBenchmark(("BM_RopeAndCache/" + name).c_str(), BM_RopeAndCache, level)
        ->ArgName("interleaved")
        ->DenseRange(0, 1);
  }
  return true;
}();

}  // namespace
}  // namespace quire
