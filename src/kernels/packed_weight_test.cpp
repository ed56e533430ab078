// Packing: what is decoded again is what the checkpoint has, in every encoding and shape; and what
// is quantized at load is near it.
#include "kernels/packed_weight.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/matmul_test_support.h"
#include "kernels/sizing.h"

namespace quire {
namespace packed_weight_test {

using Values = std::vector<float>;

Values decode(const PackedWeight& weight) {
  Values values(static_cast<std::size_t>(weight.outputs() * weight.inputs()));
  for (std::int64_t n = 0; n < weight.outputs(); ++n) {
    weight.decode_output(n, &values[static_cast<std::size_t>(n * weight.inputs())]);
  }
  return values;
}

bool all_zero(const std::uint8_t* begin, const std::uint8_t* end) {
  return std::all_of(begin, end, [](std::uint8_t byte) { return byte == 0; });
}

// What the memory plan counts is what is allocated, and not much more than the file has.
TEST(PackedWeight, TakesTheBytesThatArePlanned) {
  ThreadPool pool(1);
  for (const Encoding encoding : kQuantizedEncodings) {
    const TestMatrix matrix(encoding, 48, 768, 22);
    const PackedWeight weight = pack_or_die(pool, matrix);
    EXPECT_EQ(weight.size_bytes(), packed_bytes(layout_of(encoding), 48, 768));
    // Nested rows repeat what the file has once for many of them.
    const EncodingTraits& traits = encoding_traits(encoding);
    const auto blocks_bytes =
        static_cast<std::uint64_t>(768 / traits.block_elements * traits.block_bytes);
    const std::uint64_t row_bytes =
        is_nested_codebook(encoding) ? blocks_bytes : encoded_row_bytes(encoding, 768).value();
    const double ratio =
        static_cast<double>(weight.size_bytes()) / static_cast<double>(48 * row_bytes);
    EXPECT_GE(ratio, 1.0) << encoding_traits(encoding).name;
    EXPECT_LE(ratio, 1.03) << encoding_traits(encoding).name;
  }
}

TEST(PackedWeight, DecodesToTheCheckpointsNumbers) {
  ThreadPool pool(2);
  for (const Encoding encoding : kAllEncodings) {
    const std::int64_t unit = encoding_traits(encoding).block_elements;
    for (const std::int64_t count : {1, 2, 3, 5, 17, 31, 64, 77}) {
      for (const std::int64_t outputs : {1, 15, 16, 17, 83}) {
        const TestMatrix matrix(encoding, outputs, count * unit, 5U + static_cast<unsigned>(count));
        const PackedWeight weight = pack_or_die(pool, matrix);
        EXPECT_EQ(weight.layout(), layout_of(encoding));
        ASSERT_EQ(decode(weight), matrix.decode())
            << encoding_traits(encoding).name << ", " << outputs << " x " << count * unit;
      }
    }
  }
}

TEST(PackedWeight, OutputsThatThereAreNotAreZero) {
  ThreadPool pool(1);
  const TestMatrix matrix(Encoding::kBF16, 5, 64, 3);
  const PackedWeight weight = pack_or_die(pool, matrix);
  for (int unit = 0; unit < 32; ++unit) {
    EXPECT_TRUE(all_zero(weight.panel(0) + unit * 64 + 20, weight.panel(0) + unit * 64 + 64));
  }
}

TEST(PackedWeight, StackedPartsAreOneMatrix) {
  ThreadPool pool(2);
  const TestMatrix first(Encoding::kQ8_0, 21, 96, 1);
  const TestMatrix second(Encoding::kQ8_0, 40, 96, 2);
  const EncodedMatrix parts[] = {first.view(), second.view()};
  const auto weight = PackedWeight::pack(pool, parts, 2);
  ASSERT_TRUE(weight.ok());
  Values expected = first.decode();
  const Values rest = second.decode();
  expected.insert(expected.end(), rest.begin(), rest.end());
  EXPECT_EQ(decode(*weight), expected);
}

// Panels of nested rows have what all of their rows share.
TEST(PackedWeight, NestedRowsFollowEachOther) {
  ThreadPool pool(1);
  const TestMatrix matrix(Encoding::kNF4Nested64, 48, 640, 1);
  const auto row_bytes = encoded_row_bytes(matrix.encoding, matrix.cols).value();
  const auto pack = [&](std::int64_t first, std::int64_t split) {
    const std::uint8_t* rows = matrix.data.data() + static_cast<std::uint64_t>(first) * row_bytes;
    const EncodedMatrix parts[] = {
        {matrix.encoding, split, matrix.cols, rows},
        {matrix.encoding, 8, matrix.cols, rows + static_cast<std::uint64_t>(split) * row_bytes}};
    return PackedWeight::pack(pool, parts, 2);
  };
  EXPECT_TRUE(pack(3, 32).ok());  // panels may begin with any row
  EXPECT_EQ(pack(3, 24).status().code(), StatusCode::kUnimplemented);
  TestMatrix swapped = matrix;
  std::swap_ranges(swapped.data.begin(),
                   swapped.data.begin() + static_cast<std::ptrdiff_t>(row_bytes),
                   swapped.data.begin() + static_cast<std::ptrdiff_t>(row_bytes));
  const EncodedMatrix view = swapped.view();
  EXPECT_EQ(PackedWeight::pack(pool, &view, 1).status().code(), StatusCode::kBadModel);
}

TEST(PackedWeight, TellsOnceOfEveryByteThatItHasRead) {
  ThreadPool pool(2);
  const TestMatrix first(Encoding::kF32, 700, 1024, 1);
  const TestMatrix second(Encoding::kF32, 333, 1024, 2);
  const EncodedMatrix parts[] = {first.view(), second.view()};
  std::vector<std::atomic<int>> told(700 + 333);
  PackOptions options;
  options.done = [&](const std::uint8_t* data, std::uint64_t bytes) {
    for (std::uint64_t at = 0; at < bytes; at += 4096) {
      const bool of_first = data >= first.data.data() && data < first.data.data() + 700 * 4096;
      const auto* base = of_first ? first.data.data() : second.data.data();
      ++told[static_cast<std::size_t>(data + at - base) / 4096 + (of_first ? 0 : 700)];
    }
  };
  ASSERT_TRUE(PackedWeight::pack(pool, parts, 2, options).ok());
  for (const auto& times : told) EXPECT_EQ(times, 1);
}

// Packed weights are kept on disk. Where this fails because a layout has changed on purpose, or
// other matrices are packed as one, raise kPackedWeightVersion, so that what is kept is packed
// again, and put the new number here.
TEST(PackedWeight, TheBytesOfEachLayoutAreThoseOfThisVersion) {
  ThreadPool pool(2);
  std::uint64_t hash = 0xCBF29CE484222325U;  // FNV-1a
  const auto add = [&](const TestMatrix& matrix, const PackOptions& options) {
    const EncodedMatrix view = matrix.view();
    const auto weight = PackedWeight::pack(pool, &view, 1, options);
    ASSERT_TRUE(weight.ok());
    for (const std::uint8_t byte : weight->bytes()) hash = (hash ^ byte) * 0x100000001B3U;
  };
  for (const Encoding encoding : kAllEncodings) add(TestMatrix(encoding, 21, 512, 1), {});
  add(TestMatrix(Encoding::kBF16, 21, 77, 1), {});
  for (const auto quantization : {LoadQuantization::kInt8, LoadQuantization::kInt4}) {
    PackOptions options;
    options.quantization = quantization;
    add(TestMatrix(Encoding::kBF16, 21, 512, 1), options);
  }
  EXPECT_EQ(kPackedWeightVersion, 8);
  EXPECT_EQ(hash, 5875110402032363151U);
}

TEST(PackedWeight, AViewHasTheWeightsOfWhatItWasPackedTo) {
  ThreadPool pool(2);
  const TestMatrix matrix(Encoding::kQ4_K, 21, 512, 1);
  const auto kept = std::make_shared<PackedWeight>(pack_or_die(pool, matrix));
  const PackedWeight view =
      PackedWeight::view(kept->layout(), kept->outputs(), kept->inputs(), kept->bytes(), kept);
  EXPECT_EQ(kept.use_count(), 2);
  EXPECT_EQ(view.size_bytes(), kept->size_bytes());
  EXPECT_EQ(view.panel(1), kept->panel(1));
  EXPECT_EQ(decode(view), matrix.decode());
}

TEST(PackedWeight, RefusesFloatsThatAreNotFinite) {
  ThreadPool pool(1);
  for (const Encoding encoding : {Encoding::kF32, Encoding::kF16, Encoding::kBF16}) {
    for (const std::int64_t inputs : {64, 65}) {
      for (const std::int64_t place : {std::int64_t{0}, std::int64_t{37}, inputs - 1}) {
        TestMatrix matrix(encoding, 18, inputs, 4);
        const auto size = static_cast<std::size_t>(encoding_traits(encoding).block_bytes);
        const std::size_t at = static_cast<std::size_t>(17 * inputs + place) * size;
        matrix.data[at + size - 1] = 0x7F;  // infinity or NaN in all three
        matrix.data[at + size - 2] = 0x80;
        const EncodedMatrix view = matrix.view();
        for (const auto quantization :
             {LoadQuantization::kNone, LoadQuantization::kInt8, LoadQuantization::kInt4}) {
          PackOptions options;
          options.quantization = quantization;
          const auto weight = PackedWeight::pack(pool, &view, 1, options);
          ASSERT_FALSE(weight.ok()) << encoding_traits(encoding).name << " " << place;
          EXPECT_EQ(weight.status().code(), StatusCode::kBadModel);
        }
      }
    }
  }
}

// What quantizing at load leaves of a matrix.
Values quantized(const TestMatrix& matrix, LoadQuantization quantization, WeightLayout layout) {
  ThreadPool pool(2);
  PackOptions options;
  options.quantization = quantization;
  const EncodedMatrix view = matrix.view();
  const auto weight = PackedWeight::pack(pool, &view, 1, options);
  EXPECT_TRUE(weight.ok());
  EXPECT_EQ(weight->layout(), layout);
  EXPECT_EQ(weight->size_bytes(),
            packed_weight_bytes(matrix.encoding, matrix.rows, matrix.cols, quantization, false));
  return decode(*weight);
}

TEST(QuantizeAtLoad, Int8IsWithinHalfAStepOfEachRow) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kF16, Encoding::kBF16}) {
    for (const std::int64_t inputs : {32, 96, 576}) {
      const TestMatrix matrix(encoding, 37, inputs, 6);
      const Values exact = matrix.decode();
      const Values got = quantized(matrix, LoadQuantization::kInt8, WeightLayout::kInt8Row);
      for (std::size_t n = 0; n < 37; ++n) {
        const float* row = &exact[n * static_cast<std::size_t>(inputs)];
        float largest = 0;
        for (std::int64_t k = 0; k < inputs; ++k) largest = std::max(largest, std::fabs(row[k]));
        for (std::int64_t k = 0; k < inputs; ++k) {
          const float value =
              got[n * static_cast<std::size_t>(inputs) + static_cast<std::size_t>(k)];
          ASSERT_NEAR(value, row[k], largest / 127 * 0.5001F) << n << " " << k;
        }
      }
    }
  }
}

TEST(QuantizeAtLoad, Int4IsWithinAStepOfEachGroupAndNearerOnAverage) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kF16, Encoding::kBF16}) {
    for (const std::int64_t inputs : {32, 128, 160, 576}) {
      const TestMatrix matrix(encoding, 37, inputs, 7);
      const Values exact = matrix.decode();
      const Values got = quantized(matrix, LoadQuantization::kInt4, WeightLayout::kInt4Group128);
      double error = 0;
      double power = 0;
      for (std::size_t n = 0; n < 37; ++n) {
        for (std::int64_t g = 0; g < inputs; g += 128) {
          const std::size_t begin =
              n * static_cast<std::size_t>(inputs) + static_cast<std::size_t>(g);
          const auto count = static_cast<std::size_t>(std::min<std::int64_t>(128, inputs - g));
          const auto [low, high] =
              std::minmax_element(exact.begin() + static_cast<std::ptrdiff_t>(begin),
                                  exact.begin() + static_cast<std::ptrdiff_t>(begin + count));
          const float step = (*high - *low) / 15;
          for (std::size_t i = begin; i < begin + count; ++i) {
            // The range may have moved by half a step, for the sake of zero.
            ASSERT_NEAR(got[i], exact[i], 1.02F * step + 1e-6F) << i;
            error += std::pow(got[i] - exact[i], 2);
            power += std::pow(exact[i], 2);
          }
        }
      }
      EXPECT_LT(error / power, 0.014) << inputs;
      EXPECT_GT(error / power, 0.001) << inputs;
    }
  }
}

TEST(QuantizeAtLoad, KeepsWhatItCannotCut) {
  const TestMatrix odd(Encoding::kBF16, 20, 172, 8);  // no whole groups of 32
  EXPECT_EQ(quantized(odd, LoadQuantization::kInt4, WeightLayout::kBF16), odd.decode());
  const TestMatrix done(Encoding::kQ4_0, 20, 64, 8);
  EXPECT_EQ(quantized(done, LoadQuantization::kInt8, WeightLayout::kInt4), done.decode());
}

TEST(QuantizeAtLoad, TheVocabularyHasEightBits) {
  PackOptions options;
  options.quantization = LoadQuantization::kInt4;
  EXPECT_EQ(layout_at_load(Encoding::kF32, 64, options), WeightLayout::kInt4Group128);
  options.vocabulary = true;
  EXPECT_EQ(layout_at_load(Encoding::kF32, 64, options), WeightLayout::kInt8Row);
}

TEST(QuantizeAtLoad, RowsOfOneValueAndOfZeros) {
  TestMatrix matrix(Encoding::kF32, 16, 128, 1);
  Values values(16 * 128, 0.0F);
  std::fill_n(values.begin() + 128, 128, -0.75F);
  std::fill_n(values.begin() + 256, 128, std::numeric_limits<float>::denorm_min());
  values[3 * 128 + 5] = 3.0F;
  std::memcpy(matrix.data.data(), values.data(), matrix.data.size());
  const Values int8 = quantized(matrix, LoadQuantization::kInt8, WeightLayout::kInt8Row);
  const Values int4 = quantized(matrix, LoadQuantization::kInt4, WeightLayout::kInt4Group128);
  for (std::size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(int8[i], 0.0F);
    EXPECT_EQ(int4[i], 0.0F);
    EXPECT_FLOAT_EQ(int8[128 + i], -0.75F);
    EXPECT_EQ(int4[128 + i], -0.75F);
    EXPECT_EQ(int8[256 + i], 0.0F);
    EXPECT_EQ(int4[256 + i], 0.0F);
  }
  EXPECT_FLOAT_EQ(int8[3 * 128 + 5], 3.0F);
  EXPECT_NEAR(int4[3 * 128 + 5], 3.0F, 2e-3F);
}

// Half precision ends at 65,504: a scale or minimum beyond it must not become infinite unnoticed.
TEST(QuantizeAtLoad, WeightsBeyondHalfPrecisionAreRefusedInFourBits) {
  ThreadPool pool(1);
  TestMatrix matrix(Encoding::kF32, 16, 128, 1);
  const float large = -1e5F;
  std::memcpy(&matrix.data[0], &large, sizeof(large));
  const EncodedMatrix view = matrix.view();
  PackOptions options;
  options.quantization = LoadQuantization::kInt4;
  EXPECT_FALSE(PackedWeight::pack(pool, &view, 1, options).ok());
  options.quantization = LoadQuantization::kInt8;
  EXPECT_TRUE(PackedWeight::pack(pool, &view, 1, options).ok());
}

}  // namespace packed_weight_test
}  // namespace quire
