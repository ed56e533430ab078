// Sizes that come from a checkpoint, before anything is computed with them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/status.h"

namespace quire {

// kBadModel naming the first of `sizes` that is not positive, or far above any published model's:
// the limit keeps every product of sizes inside 64 bits.
inline Status check_sizes(std::string_view where,
                          std::initializer_list<std::pair<std::string_view, std::int64_t>> sizes) {
  constexpr std::int64_t kMaxSize = 1 << 24;
  for (const auto& [name, value] : sizes) {
    if (value > 0 && value <= kMaxSize) continue;
    return Status::bad_model(
        fmt::format("{}: {} is {}; expected 1 to {}", where, name, value, kMaxSize));
  }
  return {};
}

}  // namespace quire
