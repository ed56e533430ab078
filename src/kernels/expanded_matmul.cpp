#include "kernels/expanded_matmul.h"

#include <algorithm>
#include <cstring>

#include "kernels/group_layout.h"

namespace quire {
namespace {

// Inputs of a compact weight that are expanded at once, whole blocks of any encoding, and panels:
// the result fits into the L2 cache, mostly into the L1 cache.
constexpr std::int64_t kExpandedInputs = 512;
constexpr std::int64_t kExpandedPanels = 4;

}  // namespace

void expand_inputs(PanelExpander expand, WeightLayout layout, const std::uint8_t* panel,
                   std::int64_t first, std::int64_t count, std::uint8_t* out) {
  expand(panel + block_offset(layout, first), count, out);
  if (!has_divisors(layout)) return;
  float divisors[kPanelOutputs];
  std::memcpy(divisors, panel, sizeof(divisors));
  // Of outputs that there are not.
  for (float& divisor : divisors) divisor = divisor == 0.0F ? 1.0F : divisor;
  const GroupLayout form = group_layout(layout);
  const int lines = form.has_minimum ? 4 : 2;  // scales, and minima behind them
  for (std::int64_t g = 0; g < count / kGroupInputs; ++g) {
    for (int line = 0; line < lines; ++line) {
      std::uint8_t* const at = out + form.block_offset(g) + form.scale_offset() + 64 * line;
      float numbers[kPanelOutputs];
      std::memcpy(numbers, at, sizeof(numbers));
      for (int n = 0; n < kPanelOutputs; ++n) numbers[n] /= divisors[n];
      std::memcpy(at, numbers, sizeof(numbers));
    }
  }
}

void multiply_expanded(const MatmulPanels& all, WeightLayout layout, PanelExpander expand,
                       MatmulKernel multiply) {
  constexpr auto kBytes =
      static_cast<std::uint64_t>(kExpandedInputs / kGroupInputs *
                                 group_layout(WeightLayout::kInt8HalvesMinimum).block_bytes());
  alignas(64) std::uint8_t expanded[kExpandedPanels * kBytes];
  const std::int64_t block_bytes = group_layout(all.layout).block_bytes();
  for (std::int64_t panel = 0; panel < all.num_panels; panel += kExpandedPanels) {
    MatmulPanels piece = all;
    piece.panels = expanded;
    piece.next_panels = expanded;
    piece.num_panels = std::min(kExpandedPanels, all.num_panels - panel);
    piece.outputs = all.outputs - panel * kPanelOutputs;
    piece.out = all.out + panel * kPanelOutputs;
    if (all.bias != nullptr) piece.bias = all.bias + panel * kPanelOutputs;
    for (std::int64_t input = 0; input < all.inputs; input += kExpandedInputs) {
      piece.inputs = std::min(kExpandedInputs, all.inputs - input);
      piece.first_input = input;
      piece.x = all.x + input;
      piece.panel_bytes = static_cast<std::uint64_t>(piece.inputs / kGroupInputs * block_bytes);
      for (std::int64_t p = 0; p < piece.num_panels; ++p) {
        const auto of_panel = static_cast<std::uint64_t>(p);
        const std::uint8_t* from =
            all.panels + all.panel_bytes * static_cast<std::uint64_t>(panel + p);
        expand_inputs(expand, layout, from, input, piece.inputs,
                      expanded + piece.panel_bytes * of_panel);
      }
      multiply(piece);
      piece.bias = nullptr;
      piece.accumulate = true;
    }
  }
}

}  // namespace quire
