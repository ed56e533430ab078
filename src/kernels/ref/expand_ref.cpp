#include "kernels/ref/expand_ref.h"

#include <cstring>
#include <utility>

#include "kernels/group_layout.h"
#include "kernels/transpose.h"
#include "quant/compact_block.h"

namespace quire {
namespace {

template <WeightLayout kLayout>
void expand_blocks(const std::uint8_t* blocks, std::int64_t inputs, std::uint8_t* panel) {
  constexpr GroupLayout kForm = group_layout(kLayout);
  const Encoding encoding = encoding_of_blocks(kLayout);
  const EncodingTraits& traits = encoding_traits(encoding);
  const std::int64_t count = traits.block_elements / kGroupInputs;
  for (std::int64_t k = 0; k < inputs; k += traits.block_elements) {
    CompactGroup groups[kPanelOutputs][kMaxBlockGroups];
    for (auto& of_output : groups) {
      expand_block(encoding, blocks, of_output);
      blocks += traits.block_bytes;
    }
    for (std::int64_t g = 0; g < count; ++g, panel += kForm.block_bytes()) {
      const auto load = [&](int n, int i) { return load_words(groups[n][g].codes + 16 * i); };
      transpose_rows<8>(
          load, [](Words) {}, panel);
      for (std::int64_t n = 0; n < kPanelOutputs; ++n) {
        for (int half = 0; half < 2; ++half) {
          std::uint8_t* scale = panel + kForm.scale_offset() + 64 * half + 4 * n;
          std::memcpy(scale, &groups[n][g].scales[half], sizeof(float));
          if constexpr (kForm.has_minimum) {
            std::memcpy(scale + 128, &groups[n][g].minima[half], sizeof(float));
          }
        }
      }
    }
  }
}

template <int... kIndices>
void set_expanders(MatmulKernels& kernels, std::integer_sequence<int, kIndices...> /*layouts*/) {
  constexpr int kFirst = static_cast<int>(kFirstBlocks);
  ((kernels.expand[kFirst + kIndices] = expand_blocks<WeightLayout{kFirst + kIndices}>), ...);
}

}  // namespace

void set_ref_expanders(MatmulKernels& kernels) {
  constexpr int kCount = kNumWeightLayouts - static_cast<int>(kFirstBlocks);
  set_expanders(kernels, std::make_integer_sequence<int, kCount>{});
}

}  // namespace quire
