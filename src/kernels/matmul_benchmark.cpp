// Matrix products at the shapes of SmolLM2-135M and of a 1.1B model, and the memory bandwidth that
// bounds them. Counters: GB/s of packed weight bytes (10^9), GMAC/s. QUIRE_FORCE_ISA picks a level.
// Quantized weights see inputs of 16 bits, or of 8 or 32 where the name says so (ActivationMode).
//
//   kernels_benchmark --benchmark_filter='matmul/uint4/.*rows:1/threads:2'
#include <array>
#include <numeric>
#include <string>

#include <benchmark/benchmark.h>

#include "kernels/matmul_test_support.h"
#include "kernels/op_table.h"
#include "kernels/ops.h"

namespace quire {
namespace {

struct Shape {
  const char* name;
  std::int64_t outputs;
  std::int64_t inputs;
};

constexpr std::array kShapes = {
    Shape{"qkv_960x576", 960, 576},           Shape{"o_576x576", 576, 576},
    Shape{"gate_up_3072x576", 3072, 576},     Shape{"down_576x1536", 576, 1536},
    Shape{"logits_49152x576", 49152, 576},    Shape{"o_2048x2048", 2048, 2048},
    Shape{"gate_up_11264x2048", 11264, 2048}, Shape{"down_2048x5632", 2048, 5632},
};

struct Layout {
  const char* name;
  Encoding encoding;
  ActivationMode mode;
  LoadQuantization quantization = LoadQuantization::kNone;
};

constexpr std::array kLayouts = {
    Layout{"uint4", Encoding::kQ4_1, ActivationMode::kInt16},
    Layout{"int4", Encoding::kQ4_0, ActivationMode::kInt16},
    Layout{"int8", Encoding::kQ8_0, ActivationMode::kInt16},
    Layout{"int5", Encoding::kQ5_0, ActivationMode::kInt16},
    Layout{"uint4_super", Encoding::kQ4_K, ActivationMode::kInt16},
    Layout{"uint5_super", Encoding::kQ5_K, ActivationMode::kInt16},
    Layout{"int6_super", Encoding::kQ6_K, ActivationMode::kInt16},
    Layout{"uint4_int8", Encoding::kQ4_1, ActivationMode::kInt8},
    Layout{"int4_int8", Encoding::kQ4_0, ActivationMode::kInt8},
    Layout{"int8_int8", Encoding::kQ8_0, ActivationMode::kInt8},
    Layout{"int5_int8", Encoding::kQ5_0, ActivationMode::kInt8},
    Layout{"uint4_super_int8", Encoding::kQ4_K, ActivationMode::kInt8},
    Layout{"uint5_super_int8", Encoding::kQ5_K, ActivationMode::kInt8},
    Layout{"int6_super_int8", Encoding::kQ6_K, ActivationMode::kInt8},
    Layout{"uint4_zero32", Encoding::kUint4Zero32, ActivationMode::kInt16},
    Layout{"uint4_zero64", Encoding::kUint4Zero64, ActivationMode::kInt16},
    Layout{"uint4_zero128", Encoding::kUint4Zero128, ActivationMode::kInt16},
    Layout{"uint4_zero64_int8", Encoding::kUint4Zero64, ActivationMode::kInt8},
    Layout{"uint4_scale32", Encoding::kUint4Scale32, ActivationMode::kInt16},
    Layout{"uint4_scale64", Encoding::kUint4Scale64, ActivationMode::kInt16},
    Layout{"uint4_scale128", Encoding::kUint4Scale128, ActivationMode::kInt16},
    Layout{"int8_zero32", Encoding::kInt8Zero32, ActivationMode::kInt8},
    Layout{"int8_zero64", Encoding::kInt8Zero64, ActivationMode::kInt8},
    Layout{"int8_scale32", Encoding::kInt8Scale32, ActivationMode::kInt8},
    Layout{"int8_scale64", Encoding::kInt8Scale64, ActivationMode::kInt8},
    Layout{"nf4", Encoding::kNF4Span64, ActivationMode::kInt16},
    Layout{"nf4_nested", Encoding::kNF4Nested64, ActivationMode::kInt16},
    Layout{"fp4", Encoding::kFP4Span64, ActivationMode::kInt16},
    Layout{"nf4_float", Encoding::kNF4Span64, ActivationMode::kFloat32},
    Layout{"nf4_nested_float", Encoding::kNF4Nested64, ActivationMode::kFloat32},
    Layout{"mxfp4", Encoding::kMXFP4, ActivationMode::kInt16},
    Layout{"nvfp4", Encoding::kNVFP4Scaled, ActivationMode::kInt16},
    Layout{"hqq2_span32", Encoding::kHqq2Span32, ActivationMode::kInt16},
    Layout{"hqq2_span64", Encoding::kHqq2Span64, ActivationMode::kInt16},
    Layout{"hqq2_span128", Encoding::kHqq2Span128, ActivationMode::kInt16},
    Layout{"hqq2_span256", Encoding::kHqq2Span256, ActivationMode::kInt16},
    Layout{"hqq3_span32", Encoding::kHqq3Span32, ActivationMode::kInt16},
    Layout{"hqq3_span64", Encoding::kHqq3Span64, ActivationMode::kInt16},
    Layout{"hqq3_span128", Encoding::kHqq3Span128, ActivationMode::kInt16},
    Layout{"gptq2_span32", Encoding::kGptq2Span32, ActivationMode::kInt16},
    Layout{"gptq2_span64", Encoding::kGptq2Span64, ActivationMode::kInt16},
    Layout{"gptq2_span128", Encoding::kGptq2Span128, ActivationMode::kInt16},
    Layout{"gptq2_span256", Encoding::kGptq2Span256, ActivationMode::kInt16},
    Layout{"gptq3_span32", Encoding::kGptq3Span32, ActivationMode::kInt16},
    Layout{"gptq3_span64", Encoding::kGptq3Span64, ActivationMode::kInt16},
    Layout{"gptq3_span128", Encoding::kGptq3Span128, ActivationMode::kInt16},
    Layout{"gptq3_span256", Encoding::kGptq3Span256, ActivationMode::kInt16},
    Layout{"f8_row", Encoding::kF8Row, ActivationMode::kInt16},
    Layout{"f8_block128", Encoding::kF8Block128, ActivationMode::kInt16},
    Layout{"uint4_float", Encoding::kQ4_1, ActivationMode::kFloat32},
    Layout{"bf16", Encoding::kBF16, ActivationMode::kFloat32},
    Layout{"f32", Encoding::kF32, ActivationMode::kFloat32},
    Layout{"int8_row", Encoding::kBF16, ActivationMode::kInt8, LoadQuantization::kInt8},
    Layout{"int4_128", Encoding::kBF16, ActivationMode::kInt8, LoadQuantization::kInt4},
};

// Copies of the weight in turn, so that weights come from memory as they do in a model: more bytes
// than fits into any cache.
constexpr std::uint64_t kWorkingSet = 192U << 20;

void run_matmul(benchmark::State& state, Layout layout, Shape shape, std::int64_t rows,
                int num_threads) {
  ThreadPool pool(num_threads);
  // One block of rows is made and repeated: making random weights costs more than measuring them.
  const TestMatrix matrix(layout.encoding, 64, shape.inputs, 1);
  std::vector<EncodedMatrix> parts(static_cast<std::size_t>(shape.outputs / 64), matrix.view());
  PackOptions options;
  options.quantization = layout.quantization;
  std::vector<PackedWeight> weights;
  for (std::uint64_t total = 0; total < kWorkingSet; total += weights.back().size_bytes()) {
    weights.push_back(
        std::move(PackedWeight::pack(pool, parts.data(), static_cast<int>(parts.size()), options))
            .value());
  }
  std::vector<float> x(static_cast<std::size_t>(rows * shape.inputs));
  std::iota(x.begin(), x.end(), -1000.0F);
  std::vector<float> out(static_cast<std::size_t>(rows * shape.outputs));
  auto workspace = Buffer::allocate(matmul_workspace_bytes(rows, shape.inputs) + 64).value();
  OpContext ctx{pool, op_table(choose_level().value()), workspace.bytes()};
  std::size_t next = 0;
  for (auto _ : state) {
    const MatmulPart part{&weights[next], out.data(), shape.outputs};
    matmul(ctx, x.data(), shape.inputs, rows, layout.mode, {&part, 1});
    next = (next + 1) % weights.size();
  }
  const auto per_second = [&](double amount) {
    return benchmark::Counter(amount * static_cast<double>(state.iterations()) / 1e9,
                              benchmark::Counter::kIsRate);
  };
  state.counters["GB/s"] = per_second(static_cast<double>(weights[0].size_bytes()));
  state.counters["GMAC/s"] =
      per_second(static_cast<double>(rows * shape.outputs) * static_cast<double>(shape.inputs));
}

// The bound: a sum over a buffer that fits into no cache.
void read_bandwidth(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  auto buffer = Buffer::allocate(kWorkingSet).value();
  std::fill_n(buffer.data(), buffer.size(), std::byte{1});
  const auto* words = reinterpret_cast<const std::uint64_t*>(buffer.data());
  const auto count = static_cast<std::int64_t>(buffer.size() / 8);
  for (auto _ : state) {
    pool.parallel_for(count, 1 << 16, [&](std::int64_t begin, std::int64_t end, int) {
      std::uint64_t sums[16] = {};
      for (std::int64_t i = begin; i < end; i += 16) {
        for (int j = 0; j < 16; ++j) sums[j] += words[i + j];
      }
      benchmark::DoNotOptimize(sums);
    });
  }
  state.counters["GB/s"] = benchmark::Counter(
      static_cast<double>(buffer.size()) * static_cast<double>(state.iterations()) / 1e9,
      benchmark::Counter::kIsRate);
}

BENCHMARK(read_bandwidth)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

const bool kMatmulsRegistered = [] {
  for (const Layout& layout : kLayouts) {
    for (const Shape& shape : kShapes) {
      if (shape.inputs % encoding_traits(layout.encoding).block_elements != 0) continue;
      for (const std::int64_t rows : {1, 2, 4, 8, 16, 32, 128, 512}) {
        for (const int threads : {1, 2}) {
          const std::string name = std::string("matmul/") + layout.name + "/" + shape.name +
                                   "/rows:" + std::to_string(rows) +
                                   "/threads:" + std::to_string(threads);
          benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
            run_matmul(state, layout, shape, rows, threads);
          })->UseRealTime();
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace quire
