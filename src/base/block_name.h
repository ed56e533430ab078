// The contents of a full KV block, in 256 bits: a name that is the same in every run, so that what
// one run has computed can be found by another. It covers the tokens of the block, all tokens
// before it, and the scope of the requests that may find it. Nobody can find two contents with the
// same name, not even on purpose: it is a chain of SHA-256 (FIPS 180-4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"

namespace quire {

using BlockName = std::array<std::uint64_t, 4>;

// A fetch of blocks; counts from 1.
using FetchId = std::uint64_t;

// What comes before the first block of a sequence, for those of one scope (core/cache_scope.h).
BlockName root_block_name(std::uint64_t scope_high, std::uint64_t scope_low);

// Of the block of these tokens after the one of that name.
BlockName next_block_name(const BlockName& before, std::span<const TokenId> tokens);

// Names are distributed evenly, so that a part of a name can serve as its hash.
struct BlockNameHash {
  std::size_t operator()(const BlockName& name) const { return static_cast<std::size_t>(name[0]); }
};

}  // namespace quire
