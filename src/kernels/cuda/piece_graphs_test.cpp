// Pieces of work that a GPU repeats: the same bits as without, and never another piece's.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_test_support.h"
#include "kernels/piece_key.h"
#include "kernels/row_args.h"

namespace quire {
namespace cuda_piece_graphs_test {

using Floats = std::vector<float>;

class CudaPieceGraphs : public CudaOps {
 protected:
  void TearDown() override { unsetenv(kName); }

  // A stream of the GPU that uses graphs in this way.
  std::unique_ptr<OpStream> stream(const char* graphs) {
    setenv(kName, graphs, 1);
    auto ops = gpu.device->make_stream(limits()).value();
    ops->begin_step();
    return ops;
  }

  static constexpr const char* kName = "QUIRE_CUDA_GRAPHS";
};

TEST_F(CudaPieceGraphs, ReadWhatIsStagedEachTime) {
  const auto ops = stream("on");
  constexpr std::int64_t kCount = 1000;
  DeviceArray<float> out(*gpu.device, *ops, Floats(kCount));
  ASSERT_TRUE(ops->synchronize().ok());
  int calls = 0;
  for (int step = 0; step < 5; ++step) {
    ops->begin_step();
    const Floats values = numbers(kCount);
    const float* const staged = ops->stage(std::span<const float>(values));
    PieceKey key;
    key.add(staged, kCount);
    ops->run_piece(key, {}, [&] {
      ++calls;
      ops->copy(reinterpret_cast<const std::byte*>(staged), kCount * sizeof(float),
                reinterpret_cast<std::byte*>(out.data()));
      for (int i = 0; i < 3; ++i) ops->scale_in_place(2.0F, kCount, out.data());
    });
    const Floats result = out.read(*ops);
    for (std::size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], 8.0F * values[i]);
  }
  EXPECT_EQ(calls, 2);  // the first time, and to record it
}

TEST_F(CudaPieceGraphs, AreNotMadeOfWhatStages) {
  const auto ops = stream("on");
  constexpr std::int64_t kCount = 64;
  DeviceArray<float> out(*gpu.device, *ops, Floats(kCount));
  ASSERT_TRUE(ops->synchronize().ok());
  for (int step = 0; step < 4; ++step) {
    ops->begin_step();
    const Floats values = numbers(kCount);
    PieceKey key;
    key.add(kCount);
    ops->run_piece(key, {}, [&] {
      const float* const staged = ops->stage(std::span<const float>(values));
      ops->copy(reinterpret_cast<const std::byte*>(staged), kCount * sizeof(float),
                reinterpret_cast<std::byte*>(out.data()));
    });
    EXPECT_EQ(out.read(*ops), values);
  }
}

TEST_F(CudaPieceGraphs, OfAnotherKeyAreOthers) {
  const auto ops = stream("check");
  constexpr std::int64_t kCount = 512;
  DeviceArray<float> out(*gpu.device, *ops, Floats(kCount, 1.0F));
  ASSERT_TRUE(ops->synchronize().ok());
  float expected = 1.0F;
  for (int step = 0; step < 300; ++step) {
    ops->begin_step();
    const float factor = step % 2 == 0 ? 2.0F : 0.5F;
    PieceKey key;
    // More keys than are remembered come between.
    key.add(factor > 1.0F, step < 200 ? step / 8 : step);
    ops->run_piece(key, {}, [&] { ops->scale_in_place(factor, kCount, out.data()); });
    expected *= factor;
    const Floats result = out.read(*ops);
    ASSERT_EQ(result.front(), expected);
    ASSERT_EQ(result.back(), expected);
  }
}

TEST_F(CudaPieceGraphs, AreCheckedOnDemand) {
  const auto ops = stream("check");
  constexpr std::int64_t kCount = 512;
  DeviceArray<float> out(*gpu.device, *ops, Floats(kCount, 1.0F));
  ASSERT_TRUE(ops->synchronize().ok());
  PieceKey key;
  key.add(kCount);
  const auto run = [&](float factor) {
    ops->begin_step();
    ops->run_piece(key, {}, [&] { ops->scale_in_place(factor, kCount, out.data()); });
    return ops->synchronize();
  };
  for (int step = 0; step < 4; ++step) EXPECT_TRUE(run(2.0F).ok());
  // The key should have had the factor.
  const Status status = run(3.0F);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.to_string().find("argument"), std::string::npos) << status.to_string();
  EXPECT_EQ(out.read(*ops), Floats(kCount, 16.0F));
}

TEST_F(CudaPieceGraphs, RefuseAnUnknownWay) {
  setenv(kName, "sometimes", 1);
  EXPECT_EQ(gpu.device->make_stream(limits()).status().code(), StatusCode::kConfig);
}

// Sequences that decode: a product, keys and values into the cache, and attention over them.
class CudaDecodingPieces : public CudaPieceGraphs {
 protected:
  static constexpr std::int32_t kHeads = 8;
  static constexpr std::int32_t kKvHeads = 2;
  static constexpr std::int32_t kDims = 64;
  static constexpr std::int32_t kBlockSize = 16;
  static constexpr std::int64_t kRow = (kHeads + 2 * kKvHeads) * kDims;

  // Outputs of all steps of sequences that have so many tokens before.
  Floats decode(const char* graphs, std::vector<std::int32_t> lengths, int steps,
                const Floats& inputs) {
    const auto ops = stream(graphs);
    const KvLayout layout = {.dtype = DType::kBF16,
                             .block_size = kBlockSize,
                             .num_kv_heads = kKvHeads,
                             .head_dim = kDims};
    std::vector<std::vector<BlockId>> tables(lengths.size());
    BlockId num_blocks = 0;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      for (int i = 0; i < (lengths[s] + steps) / kBlockSize + 1; ++i) {
        tables[s].push_back(num_blocks++);
      }
    }
    const auto cache_bytes =
        static_cast<std::size_t>(num_blocks) * static_cast<std::size_t>(layout.block_bytes());
    DeviceArray<std::byte> kv(*gpu.device, *ops, std::vector<std::byte>(cache_bytes));
    const std::int64_t count = std::ssize(lengths);
    DeviceArray<float> qkv(*gpu.device, *ops, Floats(static_cast<std::size_t>(count * kRow)));
    DeviceArray<float> out(*gpu.device, *ops,
                           Floats(static_cast<std::size_t>(count * kHeads * kDims)));
    EXPECT_TRUE(ops->synchronize().ok());
    std::vector<std::unique_ptr<PlannedAttention>> plans;
    plans.push_back(ops->plan_attention(
        64, {.num_kv_heads = kKvHeads, .heads_per_kv_head = kHeads / kKvHeads}));

    Floats all;
    std::vector<std::int32_t> query_start_loc;
    for (std::int32_t i = 0; i <= count; ++i) query_start_loc.push_back(i);
    std::vector<const BlockId*> step_tables;
    for (const auto& table : tables) step_tables.push_back(table.data());
    for (int step = 0; step < steps; ++step) {
      std::vector<std::int32_t> positions = lengths;
      std::vector<std::int64_t> slots;
      for (std::size_t s = 0; s < lengths.size(); ++s) {
        const auto block = static_cast<std::size_t>(lengths[s] / kBlockSize);
        slots.push_back(std::int64_t{tables[s][block]} * kBlockSize + lengths[s] % kBlockSize);
        ++lengths[s];
      }
      ops->begin_step();
      plans[0]->build({.num_seqs = static_cast<std::int32_t>(count),
                       .query_start_loc = query_start_loc.data(),
                       .seq_lens = lengths.data(),
                       .block_tables = step_tables.data(),
                       .block_size = kBlockSize});
      const std::span<const float> rows(inputs.data() + step * count * kRow,
                                        static_cast<std::size_t>(count * kRow));
      const float* const staged = ops->stage(rows);
      const auto* const staged_positions = ops->stage(std::span<const std::int32_t>(positions));
      const auto* const staged_slots = ops->stage(std::span<const std::int64_t>(slots));
      PieceKey key;
      key.add(staged, count, staged_positions, staged_slots);
      ops->run_piece(key, plans, [&] {
        ops->copy(reinterpret_cast<const std::byte*>(staged), rows.size_bytes(),
                  reinterpret_cast<std::byte*>(qkv.data()));
        // As layers with and without a window.
        for (const std::int32_t window : {0, 100}) {
          ops->rope_and_cache({.qkv = qkv.data(),
                               .num_tokens = count,
                               .num_heads = kHeads,
                               .positions = staged_positions,
                               .slot_mapping = staged_slots,
                               .layout = layout,
                               .kv = kv.data()});
          ops->attention(*plans[0], {.q = qkv.data(),
                                     .q_stride = kRow,
                                     .num_heads = kHeads,
                                     .scale = 0.125F,
                                     .window = window,
                                     .layout = layout,
                                     .kv = kv.data(),
                                     .out = out.data()});
          ops->scale_and_add(out.data(), 0.5F, count * kHeads * kDims, qkv.data());
        }
      });
      const Floats values = out.read(*ops);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
};

TEST_F(CudaDecodingPieces, HaveTheSameBits) {
  for (const std::vector<std::int32_t>& lengths :
       {std::vector<std::int32_t>{250}, {3, 500, 1020, 17, 90}, {2040, 1}}) {
    constexpr int kSteps = 40;
    const Floats inputs = numbers(kSteps * std::ssize(lengths) * kRow);
    const Floats expected = decode("off", lengths, kSteps, inputs);
    EXPECT_EQ(decode("on", lengths, kSteps, inputs), expected);
    EXPECT_EQ(decode("check", lengths, kSteps, inputs), expected);
  }
}

}  // namespace cuda_piece_graphs_test
}  // namespace quire
