#include "serve/live/block_map.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace quire {
namespace {

std::size_t end_of_run(std::span<const BlockUse> uses, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < uses.size() && uses[end] == uses[begin]) ++end;
  return end;
}

// The runs of equal uses; nullopt where there are more than `max_runs`.
std::optional<std::vector<BlockRun>> exact_runs(std::span<const BlockUse> uses,
                                                std::size_t max_runs) {
  std::vector<BlockRun> runs;
  for (const BlockUse use : uses) {
    if (runs.empty() || runs.back().use != use) {
      if (runs.size() == max_runs) return std::nullopt;
      runs.push_back({.num_blocks = 0, .use = use});
    }
    ++runs.back().num_blocks;
  }
  return runs;
}

bool is_long(BlockUse use, std::size_t num_blocks, std::int64_t least_long) {
  return use < kBlockRetained && static_cast<std::int64_t>(num_blocks) >= least_long;
}

std::int64_t blocks_in_long_runs(std::span<const BlockUse> uses, std::int64_t least_long) {
  std::size_t blocks = 0;
  for (std::size_t begin = 0; begin < uses.size();) {
    const std::size_t end = end_of_run(uses, begin);
    if (is_long(uses[begin], end - begin, least_long)) blocks += end - begin;
    begin = end;
  }
  return static_cast<std::int64_t>(blocks);
}

// What the cell's blocks are, in one run or two. Sorts the cell.
void append_cell(std::span<BlockUse> cell, std::vector<BlockRun>& runs) {
  std::ranges::sort(cell);
  BlockRun most;
  for (std::size_t begin = 0; begin < cell.size();) {
    const std::size_t end = end_of_run(cell, begin);
    const auto num_blocks = static_cast<std::int64_t>(end - begin);
    if (num_blocks >= most.num_blocks) most = {.num_blocks = num_blocks, .use = cell[begin]};
    begin = end;
  }
  const auto rank = [](const BlockRun& run) {
    return std::pair(std::min(run.use, kBlockRetained + 1), run.num_blocks);
  };
  BlockRun second;
  for (std::size_t begin = 0; begin < cell.size();) {
    const std::size_t end = end_of_run(cell, begin);
    const BlockRun run = {.num_blocks = static_cast<std::int64_t>(end - begin), .use = cell[begin]};
    if (run.use != most.use && rank(run) >= rank(second)) second = run;
    begin = end;
  }
  runs.push_back({.num_blocks = std::ssize(cell) - second.num_blocks, .use = most.use});
  if (second.num_blocks > 0) runs.push_back(second);
}

}  // namespace

BlockRuns gather_blocks(std::span<const BlockUse> uses, std::int64_t max_runs) {
  BlockRuns result;
  if (auto exact = exact_runs(uses, static_cast<std::size_t>(max_runs))) {
    result.runs = std::move(*exact);
    return result;
  }
  // Long runs leave a stretch of cells on each side of them, whose last is begun anew.
  const std::int64_t max_long = max_runs / 8;
  const std::int64_t max_cells = (max_runs - max_long) / 2 - (max_long + 1);
  std::int64_t least_long = std::max<std::int64_t>(64, std::ssize(uses) / max_long + 1);
  for (;;) {
    const std::int64_t others = std::ssize(uses) - blocks_in_long_runs(uses, least_long);
    result.blocks_per_cell = std::max<std::int64_t>(2, (others + max_cells - 1) / max_cells);
    if (least_long > result.blocks_per_cell) break;
    least_long = 2 * result.blocks_per_cell;
  }
  const auto size = static_cast<std::size_t>(result.blocks_per_cell);
  std::vector<BlockUse> cell;
  const auto close_cell = [&] {
    if (!cell.empty()) append_cell(cell, result.runs);
    cell.clear();
  };
  for (std::size_t begin = 0; begin < uses.size();) {
    const std::size_t end = end_of_run(uses, begin);
    if (is_long(uses[begin], end - begin, least_long)) {
      close_cell();
      result.runs.push_back(
          {.num_blocks = static_cast<std::int64_t>(end - begin), .use = uses[begin]});
    } else {
      for (std::size_t i = begin; i < end; ++i) {
        cell.push_back(uses[i]);
        if (cell.size() == size) close_cell();
      }
    }
    begin = end;
  }
  close_cell();
  return result;
}

}  // namespace quire
