// The integer names that cross layers.
#pragma once

#include <cstdint>

namespace quire {

using TokenId = std::int32_t;     // index into the vocabulary; never negative once validated
using BlockId = std::int32_t;     // index of a KV block, or of a page of one, in the pool
using RequestId = std::uint64_t;  // unique for the life of an engine; external names map to it
using GroupId = std::uint64_t;    // the outputs of one prompt; never used twice
using StepId = std::uint64_t;     // counts scheduler steps from 1

// In a block table: nothing is kept for these tokens any more, because no later one reads it.
inline constexpr BlockId kNullBlock = -1;

}  // namespace quire
