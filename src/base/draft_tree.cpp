#include "base/draft_tree.h"

#include <algorithm>
#include <cassert>

namespace quire {

DraftDepths depths_of(DraftTreeView tree) {
  assert(tree.valid());
  DraftDepths depths{};
  for (std::int32_t i = 0; i < tree.size(); ++i) {
    const std::int32_t parent = tree.parent(i);
    const std::int32_t above =
        parent == DraftTreeView::kRoot ? 0 : depths[static_cast<std::size_t>(parent)];
    depths[static_cast<std::size_t>(i)] = above + 1;
  }
  return depths;
}

void order_by_paths(DraftTreeView tree, std::int32_t max_depth, std::int32_t max_paths,
                    DraftTree& ordered) {
  ordered.clear();
  const DraftDepths depths = depths_of(tree);
  constexpr std::int32_t kNotYet = -2;
  std::array<std::int32_t, kMaxTreeDrafts> place{};  // in `ordered`
  place.fill(kNotYet);
  for (std::int32_t path = 0; path < max_paths; ++path) {
    std::int32_t leaf = kNotYet;
    std::int32_t length = 0;  // what the path adds
    for (std::int32_t i = 0; i < tree.size(); ++i) {
      if (depths[static_cast<std::size_t>(i)] > max_depth) continue;
      std::int32_t added = 0;
      for (std::int32_t at = i;
           at != DraftTreeView::kRoot && place[static_cast<std::size_t>(at)] == kNotYet;
           at = tree.parent(at)) {
        ++added;
      }
      if (added <= length) continue;
      length = added;
      leaf = i;
    }
    if (length == 0) return;
    const std::size_t end = ordered.tokens.size() + static_cast<std::size_t>(length);
    ordered.tokens.resize(end);
    ordered.parents.resize(end);
    std::int32_t at = leaf;
    for (std::size_t to = end; to-- > end - static_cast<std::size_t>(length);) {
      place[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(to);
      ordered.tokens[to] = tree.token(at);
      ordered.parents[to] = static_cast<std::int32_t>(to) - 1;
      at = tree.parent(at);
    }
    ordered.parents[end - static_cast<std::size_t>(length)] =
        at == DraftTreeView::kRoot ? DraftTreeView::kRoot : place[static_cast<std::size_t>(at)];
  }
}

std::int32_t num_on_first_path(DraftTreeView ordered) {
  std::int32_t count = 0;
  while (count < ordered.size() && ordered.parent(count) == count - 1) ++count;
  return count;
}

void paths_of(DraftTreeView ordered, std::vector<DraftPath>& paths) {
  paths.clear();
  for (std::int32_t i = 0; i < ordered.size(); ++i) {
    const std::int32_t parent = ordered.parent(i);
    if (!paths.empty() && parent == i - 1) {
      ++paths.back().count;
      continue;
    }
    DraftPath path = {.first = i, .count = 1};
    if (!paths.empty()) path.parent = 0;  // where it begins behind the text
    if (parent != DraftTreeView::kRoot) {
      path.parent = path_with(paths, parent);
      const DraftPath& left = paths[static_cast<std::size_t>(path.parent)];
      path.depth = left.depth + parent - left.first + 1;
    }
    paths.push_back(path);
  }
}

std::int32_t path_with(std::span<const DraftPath> paths, std::int32_t node) {
  const auto behind = std::ranges::upper_bound(paths, node, {}, &DraftPath::first);
  return static_cast<std::int32_t>(behind - paths.begin()) - 1;
}

}  // namespace quire
