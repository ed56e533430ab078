// Where a layer's fixed-size states lie, which of them the rows of a step take up and leave, and
// what the ops take that compute with them. A state is one for all tokens of a sequence so far, and
// each of its rows replaces it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace quire {

// Rows of a step that follow each other in one sequence. They continue the state in page `source`,
// one of zeros where that is kNullBlock, and leave theirs in page `target`, which may be the same.
struct StateRun {
  std::int32_t first_row = 0;
  std::int32_t num_rows = 0;
  BlockId source = kNullBlock;
  BlockId target = 0;
};

// Of one layer, in a step.
struct LayerStates {
  std::byte* data = nullptr;  // of page 0
  std::uint64_t stride = 0;   // bytes from a page to the next
  const StateRun* runs = nullptr;
  std::int64_t num_runs = 0;  // those of a sequence in their order

  float* state(BlockId page) const {
    return reinterpret_cast<float*>(data + static_cast<std::uint64_t>(page) * stride);
  }
};

// A gated short convolution (Liquid AI 2025, LFM2): of each channel on its own
//
//   out[t] = output_gate[t] * (sum_k weight[k] g[t - taps + 1 + k] + bias),  g[t] = gate[t]
//   value[t]
//
// in the order of k. What of g is before a step's rows is the sequence's state:
// [taps - 1][channels] floats, the latest last.
struct ShortConvArgs {
  float* x = nullptr;  // [rows][gate, output gate, value], each [channels]; values become g
  std::int64_t channels = 0;
  std::int32_t taps = 0;          // 2 to kMaxConvTaps
  const float* weight = nullptr;  // [channels][taps]
  const float* bias = nullptr;    // [channels] or nullptr
  LayerStates states;             // of all rows
  float* out = nullptr;           // [rows][channels]
};
inline constexpr std::int32_t kMaxConvTaps = 16;

// Appends the runs of a sequence's tokens [begin, end), whose rows begin at `first_row`: one for
// each block, so that a state stays as it is at every block's end. `pages`: of its blocks.
inline void append_state_runs(std::int32_t first_row, std::int32_t begin, std::int32_t end,
                              std::int32_t block_size, std::span<const BlockId> pages,
                              std::vector<StateRun>& runs) {
  const auto page_of = [&](std::int32_t token) {
    return pages[static_cast<std::size_t>(token / block_size)];
  };
  for (std::int32_t token = begin; token < end;) {
    const std::int32_t next = std::min(end, (token / block_size + 1) * block_size);
    runs.push_back({.first_row = first_row + token - begin,
                    .num_rows = next - token,
                    .source = token == 0 ? kNullBlock : page_of(token - 1),
                    .target = page_of(token)});
    token = next;
  }
}

}  // namespace quire
