// Counter-based random numbers: the value depends on (seed, counter) alone, so a request's stream
// is the same whatever else runs, and a preempted request continues where it was. The mixing
// function is SplitMix64's finaliser (Steele, Lea, Flood 2014), applied to both words in turn.
#pragma once

#include <cstdint>

namespace quire {

constexpr std::uint64_t mix64(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t counter) {
  return mix64(mix64(seed) ^ mix64(counter * 0xD1B54A32D192ED03ULL + 1));
}

// Uniform in [0, 1) with 53 random bits.
constexpr double random_uniform(std::uint64_t seed, std::uint64_t counter) {
  return static_cast<double>(random_bits(seed, counter) >> 11) * 0x1.0p-53;
}

}  // namespace quire
