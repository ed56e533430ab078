// Compact weights expanded for their products: at every level the very bytes of level ref, which
// are the weights that decoding gives.
#include <vector>

#include <gtest/gtest.h>

#include "kernels/expanded_matmul.h"
#include "kernels/level_test_support.h"
#include "kernels/matmul_test_support.h"
#include "kernels/packed_group.h"
#include "quant/compact_block.h"

namespace quire {
namespace expand_test {

constexpr std::int64_t kInputs = 512;

// The expanded panel of a whole weight of one panel.
std::vector<std::uint8_t> expand(IsaLevel level, const PackedWeight& weight) {
  const WeightLayout layout = weight.layout();
  std::vector<std::uint8_t> panel(panel_bytes(product_layout(layout), weight.inputs()));
  const PanelExpander expander = op_table(level).matmul.expand[static_cast<std::size_t>(layout)];
  EXPECT_NE(expander, nullptr);
  expand_inputs(expander, layout, weight.panel(0), 0, weight.inputs(), panel.data());
  return panel;
}

std::vector<Encoding> compact_encodings() {
  std::vector<Encoding> compact;
  for (const Encoding encoding : kAllEncodings) {
    if (is_compact(encoding)) compact.push_back(encoding);
  }
  return compact;
}

TEST(Expand, GivesTheWeightsThatDecodingGives) {
  ThreadPool pool(1);
  for (const Encoding encoding : compact_encodings()) {
    const TestMatrix matrix(encoding, kPanelOutputs, kInputs, 31);
    const PackedWeight weight = pack_or_die(pool, matrix);
    const auto panel = expand(IsaLevel::kRef, weight);
    const std::vector<float> weights = matrix.decode();
    const GroupLayout form = group_layout(weight.layout());
    for (std::int64_t n = 0; n < kPanelOutputs; ++n) {
      for (std::int64_t g = 0; g < kInputs / kGroupInputs; ++g) {
        const PackedGroup group = read_packed_group(form, panel.data(), g, n);
        for (int i = 0; i < kGroupInputs; ++i) {
          const float product = group.scales[i / 16] * static_cast<float>(group.codes[i]);
          ASSERT_EQ(product + group.minima[i / 16],
                    weights[static_cast<std::size_t>(n * kInputs + g * kGroupInputs + i)])
              << encoding_traits(encoding).name << ", output " << n << ", input "
              << g * kGroupInputs + i;
        }
      }
    }
  }
}

class ExpandLevels : public testing::TestWithParam<IsaLevel> {};

TEST_P(ExpandLevels, GivesTheBytesOfLevelRef) {
  QUIRE_SKIP_ABSENT_LEVEL();
  ThreadPool pool(1);
  for (const Encoding encoding : compact_encodings()) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const TestMatrix matrix(encoding, kPanelOutputs, kInputs, seed);
      const PackedWeight weight = pack_or_die(pool, matrix);
      ASSERT_EQ(expand(GetParam(), weight), expand(IsaLevel::kRef, weight))
          << encoding_traits(encoding).name << " " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, ExpandLevels, kAllLevels, level_test_name);

}  // namespace expand_test
}  // namespace quire
