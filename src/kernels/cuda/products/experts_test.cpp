// A mixture of experts on a GPU: what the CPU's definition gives, and a row's bits whatever other
// rows there are.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_test_support.h"
#include "kernels/matmul_test_support.h"

namespace quire {
namespace cuda_experts_test {

using Floats = std::vector<float>;

struct Mixture {
  Encoding gate = Encoding::kBF16;
  Encoding up = Encoding::kBF16;
  Encoding down = Encoding::kBF16;
  std::int64_t hidden = 256;
  std::int64_t width = 512;
  bool is_float = false;  // the mode of the GPU
  bool biases = false;
  bool ordered = false;
  bool weigh_inputs = false;
  std::optional<ClampedGate> clamped = {};
  Activation activation = Activation::kSilu;
};

Mixture all_of(Encoding encoding) { return {.gate = encoding, .up = encoding, .down = encoding}; }

class CudaExperts : public CudaOps {
 protected:
  static constexpr std::int64_t kNumExperts = 7;
  static constexpr std::int64_t kPerRow = 3;

  // Those of rows [begin, end) of `x`, whose choice of experts is random but their own.
  Floats compute(DeviceUnderTest& on, const Mixture& mixture, const Floats& x, std::int64_t begin,
                 std::int64_t end) {
    std::vector<ExpertWeights> experts;
    for (unsigned i = 0; i < kNumExperts; ++i) {
      const auto pack = [&](Encoding encoding, std::int64_t outputs, std::int64_t inputs,
                            unsigned seed) {
        const TestMatrix matrix(encoding, outputs, inputs, 10 * i + seed);
        EncodedMatrix view = matrix.view();
        std::vector<std::int32_t> order(static_cast<std::size_t>(inputs));
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), std::mt19937(i));
        if (mixture.ordered) view.input_order = order.data();
        return on.weight(view);
      };
      experts.push_back({.gate = pack(mixture.gate, mixture.width, mixture.hidden, 0),
                         .up = pack(mixture.up, mixture.width, mixture.hidden, 1),
                         .down = pack(mixture.down, mixture.hidden, mixture.width, 2)});
    }
    const auto biases_of = [](std::int64_t outputs, unsigned seed) {
      std::mt19937 random(seed);
      std::normal_distribution<float> normal(0.0F, 0.3F);
      Floats biases(static_cast<std::size_t>(kNumExperts * outputs));
      for (float& bias : biases) bias = normal(random);
      return biases;
    };
    std::vector<std::int32_t> chosen;
    Floats weights;
    for (std::int64_t row = begin; row < end; ++row) {
      std::vector<std::int32_t> order(kNumExperts);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(row)));
      chosen.insert(chosen.end(), order.begin(), order.begin() + kPerRow);
      for (int i = 0; i < kPerRow; ++i) weights.push_back(0.2F + 0.1F * static_cast<float>(i));
    }
    const Floats rows(x.begin() + begin * mixture.hidden, x.begin() + end * mixture.hidden);

    on.ops->begin_step();
    const auto inputs = on.array(rows);
    const auto device_chosen = on.array(chosen);
    const auto device_weights = on.array(weights);
    const auto gate_biases = on.array(biases_of(mixture.width, 1));
    const auto up_biases = on.array(biases_of(mixture.width, 2));
    const auto down_biases = on.array(biases_of(mixture.hidden, 3));
    const auto out = on.array(Floats(rows.size(), std::nanf("")));
    const auto mode =
        &on == &cpu || mixture.is_float ? ActivationMode::kFloat32 : ActivationMode::kInt8;
    on.ops->expert_mlp(inputs.data(), end - begin,
                       {.experts = experts,
                        .gate_biases = mixture.biases ? gate_biases.data() : nullptr,
                        .up_biases = mixture.biases ? up_biases.data() : nullptr,
                        .down_biases = mixture.biases ? down_biases.data() : nullptr,
                        .activation = mixture.activation,
                        .clamped = mixture.clamped,
                        .gate_up_mode = mode,
                        .down_mode = mode,
                        .experts_per_row = kPerRow,
                        .chosen = device_chosen.data(),
                        .weights = device_weights.data(),
                        .weigh_inputs = mixture.weigh_inputs},
                       out.data());
    return out.read(*on.ops);
  }

  // Of `rows` rows. On tensor cores the inputs of both products are rounded to bfloat16, and those
  // of the CPU are not: that alone is 0.3% of the results' deviation, and 1% to 3.4% of it for the
  // worst of some thousand.
  void check(const Mixture& mixture, std::int64_t rows) {
    const Floats x = numbers(rows * mixture.hidden);
    const Floats expected = compute(cpu, mixture, x, 0, rows);
    const Floats actual = compute(gpu, mixture, x, 0, rows);
    const double squares =
        std::inner_product(expected.begin(), expected.end(), expected.begin(), 0.0);
    const auto deviation =
        static_cast<float>(std::sqrt(squares / static_cast<double>(expected.size())));
    const float tolerance = mixture.is_float ? 1e-4F : 0.06F;
    double squared_errors = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], tolerance * deviation) << "number " << i;
      squared_errors += std::pow(double{actual[i]} - double{expected[i]}, 2.0);
    }
    const double error = std::sqrt(squared_errors / static_cast<double>(expected.size()));
    ASSERT_LT(error, (mixture.is_float ? 3e-5 : 0.005) * double{deviation});
    // Alone, in a small tile and in a large one.
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{9}, rows / 2}) {
      const Floats some = compute(gpu, mixture, x, rows - count, rows);
      for (std::size_t i = 0; i < some.size(); ++i) {
        const std::size_t at = expected.size() - some.size() + i;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(some[i]), std::bit_cast<std::uint32_t>(actual[at]))
            << "number " << i << " of " << count << " rows";
      }
    }
  }
};

TEST_F(CudaExperts, AreThoseOfTheCpu) {
  for (const Encoding encoding :
       {Encoding::kBF16, Encoding::kF16, Encoding::kQ8_0, Encoding::kQ4_0, Encoding::kQ4_K,
        Encoding::kQ6_K, Encoding::kUint4Zero128, Encoding::kF8Row}) {
    SCOPED_TRACE(encoding_traits(encoding).name);
    check(all_of(encoding), 64);
  }
}

TEST_F(CudaExperts, TakeCompactBlocks) {
  for (const Encoding encoding :
       {Encoding::kMXFP4, Encoding::kQ2_K, Encoding::kQ3_K, Encoding::kQ8_K, Encoding::kIQ4_NL,
        Encoding::kIQ4_XS, Encoding::kNVFP4, Encoding::kNVFP4Scaled, Encoding::kIQ2_XXS,
        Encoding::kIQ2_XS, Encoding::kIQ3_S, Encoding::kIQ1_M, Encoding::kTQ1_0,
        Encoding::kHqq2Span64, Encoding::kHqq4Span64, Encoding::kGptq3Span32}) {
    SCOPED_TRACE(encoding_traits(encoding).name);
    check(all_of(encoding), 64);
  }
  Mixture mixture = all_of(Encoding::kMXFP4);  // whose spans end with the rows
  mixture.hidden = 288;
  mixture.width = 352;
  mixture.biases = true;
  mixture.clamped = ClampedGate{.alpha = 1.702F, .limit = 1.5F};
  check(mixture, 60);
}

TEST_F(CudaExperts, HaveFloatsWhereTheyAreAskedFor) {
  for (const Encoding encoding :
       {Encoding::kF32, Encoding::kBF16, Encoding::kQ4_K, Encoding::kMXFP4, Encoding::kIQ2_S}) {
    SCOPED_TRACE(encoding_traits(encoding).name);
    Mixture mixture = all_of(encoding);
    mixture.is_float = true;
    mixture.biases = true;
    check(mixture, 20);
    mixture.weigh_inputs = true;
    check(mixture, 20);
  }
}

TEST_F(CudaExperts, TakeSizesThatFillNoTile) {
  Mixture mixture = all_of(Encoding::kBF16);
  mixture.hidden = 99;
  mixture.width = 45;
  check(mixture, 60);
}

TEST_F(CudaExperts, HaveBiasesActivationsAndWeights) {
  for (const Encoding encoding : {Encoding::kBF16, Encoding::kQ4_1}) {
    Mixture mixture = all_of(encoding);
    mixture.biases = true;
    mixture.clamped = ClampedGate{.alpha = 1.702F, .limit = 1.5F};
    check(mixture, 60);
    mixture.clamped = {};
    mixture.activation = Activation::kGeluTanh;
    mixture.weigh_inputs = true;
    check(mixture, 60);
  }
}

TEST_F(CudaExperts, HaveOrdersOfInputs) {
  for (const Encoding encoding : {Encoding::kUint4Zero128, Encoding::kQ4_1}) {
    Mixture mixture = all_of(encoding);
    mixture.ordered = true;
    check(mixture, 60);
    mixture.is_float = true;
    check(mixture, 20);
  }
}

TEST_F(CudaExperts, MixLayouts) {
  check({.gate = Encoding::kQ4_K, .up = Encoding::kQ4_K, .down = Encoding::kQ6_K}, 60);
  check({.gate = Encoding::kQ4_0, .up = Encoding::kQ4_K, .down = Encoding::kQ5_1}, 60);
  check({.gate = Encoding::kQ2_K, .up = Encoding::kQ2_K, .down = Encoding::kQ3_K}, 60);
}

}  // namespace cuda_experts_test
}  // namespace quire
