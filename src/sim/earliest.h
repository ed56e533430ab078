// The first of several moments, each of which may never come.
#pragma once

#include <initializer_list>
#include <optional>

#include "base/clock.h"

namespace quire {

// nullopt: none comes.
inline std::optional<Instant> earliest(std::initializer_list<std::optional<Instant>> moments) {
  std::optional<Instant> first;
  for (const auto& each : moments) {
    if (each && (!first || *each < *first)) first = each;
  }
  return first;
}

}  // namespace quire
