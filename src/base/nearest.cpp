#include "base/nearest.h"

#include <algorithm>

namespace quire {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view name,
                                   const std::vector<std::string>& candidates,
                                   std::optional<std::size_t> most_edits) {
  constexpr std::size_t kLongestName = 64;
  if (name.size() > kLongestName) return std::nullopt;
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t edits = edit_distance(name, candidate);
    if (best != nullptr && edits >= best_distance) continue;
    best = &candidate;
    best_distance = edits;
  }
  if (best == nullptr ||
      best_distance > most_edits.value_or(std::max<std::size_t>(2, name.size() / 3))) {
    return std::nullopt;
  }
  return *best;
}

}  // namespace quire
