// The experts of one layer of the shape of Qwen3-30B-A3B: 128 of them, 768 wide over 2,048, of
// which each row goes to 8. Counters: GB/s of the weights that are read (10^9), and of how many
// experts. QUIRE_FORCE_ISA picks a level.
//
//   kernels_benchmark --benchmark_filter='experts/.*rows:1/threads:2'
#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "kernels/matmul_test_support.h"
#include "kernels/op_table.h"
#include "kernels/ops.h"
#include "kernels/sizing.h"

namespace quire {
namespace {

constexpr ExpertSizes kSizes = {
    .num_experts = 128, .experts_per_row = 8, .hidden_size = 2048, .intermediate_size = 768};
constexpr std::int64_t kSteps = 16;  // of different choices, one after the other

struct ExpertLayout {
  const char* name;
  Encoding encoding;
  LoadQuantization quantization = LoadQuantization::kNone;
};

constexpr std::array kExpertLayouts = {
    ExpertLayout{"bf16", Encoding::kBF16},
    ExpertLayout{"int8_row", Encoding::kBF16, LoadQuantization::kInt8},
    ExpertLayout{"int4_128", Encoding::kBF16, LoadQuantization::kInt4},
    ExpertLayout{"uint4_super", Encoding::kQ4_K},
};

// A matrix of each expert, packed as one, as a model's are. One block of rows is made and repeated:
// making random weights costs more than measuring them.
std::vector<PackedWeight> pack_repeated(ThreadPool& pool, const ExpertLayout& layout,
                                        std::int64_t outputs, std::int64_t inputs) {
  const TestMatrix matrix(layout.encoding, 64, inputs, 1);
  const std::vector<EncodedMatrix> parts(
      static_cast<std::size_t>(kSizes.num_experts * outputs / 64), matrix.view());
  PackOptions options;
  options.quantization = layout.quantization;
  const auto all = std::make_shared<const PackedWeight>(
      std::move(PackedWeight::pack(pool, parts.data(), static_cast<int>(parts.size()), options))
          .value());
  const std::size_t bytes = all->size_bytes() / static_cast<std::size_t>(kSizes.num_experts);
  std::vector<PackedWeight> weights;
  for (std::size_t i = 0; i < static_cast<std::size_t>(kSizes.num_experts); ++i) {
    weights.push_back(PackedWeight::view(all->layout(), outputs, inputs,
                                         all->bytes().subspan(i * bytes, bytes), all));
  }
  return weights;
}

// The experts of all steps' rows: 8 different ones for each row.
std::vector<std::int32_t> random_choices(std::int64_t rows) {
  std::mt19937 random(1);
  std::vector<std::int32_t> all(static_cast<std::size_t>(kSizes.num_experts));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);
  std::vector<std::int32_t> choices;
  for (std::int64_t row = 0; row < kSteps * rows; ++row) {
    std::shuffle(all.begin(), all.end(), random);
    choices.insert(choices.end(), all.begin(), all.begin() + kSizes.experts_per_row);
  }
  return choices;
}

void run_experts(benchmark::State& state, const ExpertLayout& layout, std::int64_t rows,
                 int num_threads) {
  ThreadPool pool(num_threads);
  std::vector<ExpertWeights> experts(static_cast<std::size_t>(kSizes.num_experts));
  auto gates = pack_repeated(pool, layout, kSizes.intermediate_size, kSizes.hidden_size);
  auto ups = pack_repeated(pool, layout, kSizes.intermediate_size, kSizes.hidden_size);
  auto downs = pack_repeated(pool, layout, kSizes.hidden_size, kSizes.intermediate_size);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    experts[i] = {std::move(gates[i]), std::move(ups[i]), std::move(downs[i])};
  }
  const std::vector<std::int32_t> choices = random_choices(rows);
  const std::int64_t pairs = rows * kSizes.experts_per_row;
  const std::vector<float> weights(static_cast<std::size_t>(pairs), 0.125F);
  const std::vector<float> x(static_cast<std::size_t>(rows * kSizes.hidden_size), 0.5F);
  std::vector<float> out(x.size());
  auto workspace = Buffer::allocate(expert_workspace_bytes(rows, kSizes, num_threads)).value();
  OpContext ctx{pool, op_table(choose_level().value()), workspace.bytes()};
  double used = 0;
  std::int64_t step = 0;
  for (auto _ : state) {
    const std::int32_t* const chosen = choices.data() + step * pairs;
    expert_mlp(ctx, x.data(), rows,
               {.experts = experts,
                .gate_up_mode = ActivationMode::kInt16,
                .down_mode = ActivationMode::kInt8,
                .experts_per_row = kSizes.experts_per_row,
                .chosen = chosen,
                .weights = weights.data()},
               out.data());
    std::vector<std::int32_t> distinct(chosen, chosen + pairs);
    std::ranges::sort(distinct);
    used += static_cast<double>(std::unique(distinct.begin(), distinct.end()) - distinct.begin());
    step = (step + 1) % kSteps;
  }
  const auto expert_bytes = static_cast<double>(
      experts[0].gate.size_bytes() + experts[0].up.size_bytes() + experts[0].down.size_bytes());
  state.counters["GB/s"] =
      benchmark::Counter(used * expert_bytes / 1e9, benchmark::Counter::kIsRate);
  state.counters["experts"] = benchmark::Counter(used / static_cast<double>(state.iterations()));
}

const bool kExpertsRegistered = [] {
  for (const ExpertLayout& layout : kExpertLayouts) {
    for (const std::int64_t rows : {1, 4, 16, 128, 512}) {
      for (const int threads : {1, 2}) {
        const std::string name = std::string("experts/") + layout.name +
                                 "/rows:" + std::to_string(rows) +
                                 "/threads:" + std::to_string(threads);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
          run_experts(state, layout, rows, threads);
        })->UseRealTime();
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace quire
