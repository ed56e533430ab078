// The nearest name to a mistyped one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// The candidate that the fewest insertions, deletions, replacements and swaps of neighbours turn
// into `name` (Damerau's distance, the restricted form); nullopt where even that is far away: more
// than `most_edits`, by default a third of the name.
std::optional<std::string> nearest(std::string_view name,
                                   const std::vector<std::string>& candidates,
                                   std::optional<std::size_t> most_edits = {});

}  // namespace quire
