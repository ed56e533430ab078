// Attention at the shapes of SmolLM2-135M (9 heads over 3, head size 64), of a 1.1B llama (32 over
// 4, 64), of Llama-3.2-3B (24 over 8, 128) and of Qwen2.5-7B (28 over 4, 128), and over latents of
// DeepSeek-V2 (576 numbers, 512 of them the value): decode of a batch at a context, with a shared
// prefix too, prefill of a prompt; dtype 0 is float32, 1 bfloat16, 2 FP8, 3 int8. Reports
// multiply-accumulates per second and, for decode, bytes of the cache per second, each counted
// once.
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/op_table.h"
#include "kernels/ops.h"
#include "kernels/sizing.h"
#include "tensor/buffer.h"

namespace quire {
namespace {

struct Case {
  std::int32_t num_heads;
  std::int32_t num_kv_heads;
  std::int32_t batch;
  std::int32_t context;  // keys of each sequence
  std::int32_t queries;  // the last of them that are computed
  DType dtype;
  std::int32_t shared = 0;  // keys at the beginning that are the same blocks in all sequences
  bool find_shared = true;  // and are read once
  std::int32_t head_dim = 64;
  std::int32_t latent_dims = 0;  // KvLayout
};

void run(benchmark::State& state, const Case& c, int threads) {
  constexpr std::int32_t kBlockSize = 16;
  const auto level = choose_level();
  if (!level.ok()) {
    state.SkipWithError(level.status().to_string().c_str());
    return;
  }
  ThreadPool pool(threads);
  const std::int32_t group = c.num_heads / c.num_kv_heads;
  const std::uint64_t workspace_size =
      workspace_bytes(1, 32, {c.head_dim, group, c.context, c.num_kv_heads, c.batch}, threads);
  Buffer workspace = Buffer::allocate(workspace_size).value();
  OpContext ctx{pool, op_table(*level), workspace.bytes()};
  const KvLayout layout{c.dtype, kBlockSize, c.num_kv_heads, c.head_dim, 0, c.latent_dims};
  const std::int32_t blocks = (c.context + kBlockSize - 1) / kBlockSize;
  Buffer kv = Buffer::allocate(layout.block_bytes() * static_cast<std::uint64_t>(blocks) *
                               static_cast<std::uint64_t>(c.batch))
                  .value();
  std::mt19937 generator(1);
  // Any bits that are moderate numbers in both types.
  for (std::byte& byte : kv.bytes()) {
    byte = static_cast<std::byte>(generator() % 2 == 0 ? 63 : 61);
  }

  std::vector<std::vector<BlockId>> tables;
  std::vector<const BlockId*> table_pointers;
  std::vector<std::int32_t> query_start_loc = {0};
  const std::vector<std::int32_t> seq_lens(static_cast<std::size_t>(c.batch), c.context);
  BlockId next = 0;
  for (std::int32_t s = 0; s < c.batch; ++s) {
    auto& table = tables.emplace_back();
    table.reserve(static_cast<std::size_t>(blocks));
    const std::int32_t shared = s == 0 ? 0 : c.shared / kBlockSize;
    const auto first = tables.front().begin();
    table.insert(table.end(), first, first + shared);
    while (std::ssize(table) < blocks) table.push_back(next++);
    query_start_loc.push_back(query_start_loc.back() + c.queries);
  }
  table_pointers.reserve(tables.size());
  for (const auto& table : tables) table_pointers.push_back(table.data());
  AttentionPlan plan;
  plan.build({c.batch, query_start_loc.data(), seq_lens.data(), table_pointers.data(),
              c.find_shared ? kBlockSize : 0},
             {c.num_kv_heads, group}, threads);

  const auto row = static_cast<std::size_t>(c.num_heads * c.head_dim);
  std::vector<float> q(row * static_cast<std::size_t>(query_start_loc.back()));
  std::normal_distribution<float> normal;
  for (float& value : q) value = normal(generator);
  std::vector<float> out(q.size());
  AttentionArgs args;
  args.q = q.data();
  args.q_stride = static_cast<std::int64_t>(row);
  args.num_heads = c.num_heads;
  args.scale = 0.125F;
  args.layout = layout;
  args.kv = kv.data();
  args.out = out.data();
  while (state.KeepRunning()) {
    attention(ctx, plan, args);
    benchmark::ClobberMemory();
  }
  double keys = 0.0;  // over all queries of a sequence
  for (std::int32_t i = 0; i < c.queries; ++i) keys += c.context - i;
  const double passes = static_cast<double>(state.iterations()) * c.batch;
  state.counters["MAC/s"] =
      benchmark::Counter(passes * keys * c.num_heads * (c.head_dim + layout.value_dims()),
                         benchmark::Counter::kIsRate);
  if (c.queries == 1) {
    state.counters["bytes"] = benchmark::Counter(
        passes * keys * static_cast<double>(layout.token_bytes()), benchmark::Counter::kIsRate);
  }
}

constexpr std::array kTypes = {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kI8};

DType dtype_of(std::int64_t index) { return kTypes[static_cast<std::size_t>(index)]; }

// 9 heads over 3, or 32 over 4, of 64 dimensions; or 24 over 8, or 28 over 4, of 128.
Case case_of(const benchmark::State& state, std::int32_t queries) {
  const auto heads = static_cast<std::int32_t>(state.range(0));
  return {.num_heads = heads,
          .num_kv_heads = heads == 9    ? 3
                          : heads == 24 ? 8
                                        : 4,
          .batch = static_cast<std::int32_t>(state.range(1)),
          .context = static_cast<std::int32_t>(state.range(2)),
          .queries = queries,
          .dtype = dtype_of(state.range(3)),
          .head_dim = heads == 24 || heads == 28 ? 128 : 64};
}

void BM_Decode(benchmark::State& state) {
  run(state, case_of(state, 1), static_cast<int>(state.range(4)));
}
BENCHMARK(BM_Decode)
    ->ArgNames({"heads", "batch", "context", "dtype", "threads"})
    ->ArgsProduct({{9, 32}, {1, 16}, {128, 2048}, {1}, {1, 2}})
    ->ArgsProduct({{9, 32}, {1, 8}, {8192}, {0, 1, 2, 3}, {1, 2}})
    ->ArgsProduct({{24, 28}, {1, 8}, {8192}, {1, 3}, {1, 2}})
    ->UseRealTime();

void BM_LatentDecode(benchmark::State& state) {
  run(state,
      {.num_heads = static_cast<std::int32_t>(state.range(0)),
       .num_kv_heads = 1,
       .batch = static_cast<std::int32_t>(state.range(1)),
       .context = static_cast<std::int32_t>(state.range(2)),
       .queries = 1,
       .dtype = dtype_of(state.range(3)),
       .head_dim = 576,
       .latent_dims = 512},
      static_cast<int>(state.range(4)));
}
BENCHMARK(BM_LatentDecode)
    ->ArgNames({"heads", "batch", "context", "dtype", "threads"})
    ->ArgsProduct({{16, 128}, {1, 8}, {8192}, {1}, {1, 2}})
    ->UseRealTime();

// Sequences that share their first 4,096 keys and have `own` more each; `once` 0: read for each.
// Bytes of the cache per second as if each sequence read its own.
void BM_SharedPrefix(benchmark::State& state) {
  Case c = case_of(state, 1);
  c.shared = 4096;
  c.context += c.shared;
  c.find_shared = state.range(5) != 0;
  run(state, c, static_cast<int>(state.range(4)));
}
BENCHMARK(BM_SharedPrefix)
    ->ArgNames({"heads", "batch", "own", "dtype", "threads", "once"})
    ->ArgsProduct({{9, 32}, {16}, {128}, {1}, {1, 2}, {0, 1}})
    ->UseRealTime();

void BM_Prefill(benchmark::State& state) {
  run(state, case_of(state, static_cast<std::int32_t>(state.range(2))),
      static_cast<int>(state.range(4)));
}
BENCHMARK(BM_Prefill)
    ->ArgNames({"heads", "batch", "tokens", "dtype", "threads"})
    ->ArgsProduct({{9, 32}, {1}, {512, 2048}, {0, 1, 2, 3}, {1, 2}})
    ->UseRealTime();

}  // namespace
}  // namespace quire
