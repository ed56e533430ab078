// SHA-256 (FIPS 180-4): nobody can find two inputs with the same digest, not even on purpose.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

// The digest's 32 bytes, as they lie in memory.
std::array<std::uint64_t, 4> sha256(std::span<const std::byte> bytes);

}  // namespace quire
