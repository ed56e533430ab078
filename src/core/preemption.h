// How a running request gives up its blocks when others need them, and what that costs it.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"

namespace quire {

enum class PreemptionMethod : std::uint8_t {
  kRecompute,  // what is lost of its blocks is computed again
  kSwap,       // its full blocks go to the lower tier as they leave the cache, and come back
};
std::string_view preemption_method_name(PreemptionMethod method);  // "recompute", "swap"

// What is given up, and what it takes to get it back if others use all of it meanwhile.
struct Preemption {
  PreemptionMethod method = PreemptionMethod::kRecompute;
  Duration cost{};              // by measured costs; zero: not measured yet, or nothing is lost
  std::int32_t num_pages = 0;   // that nobody else holds: so many become free
  std::int32_t num_tokens = 0;  // to be computed again, at most
  std::int32_t num_blocks = 0;  // to be fetched, at most

  bool operator==(const Preemption&) const = default;
};

}  // namespace quire
