// Prefixes that stay in the prefix cache until they are let go, whatever else needs memory. Each
// has a block table of its own, of what a request needs that goes on after exactly its tokens: so
// its blocks count as used, and whoever begins with them shares them. All full blocks; it says
// nothing of names or times, which are its user's matter.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "core/cache_scope.h"

namespace quire {

class KvCacheManager;

using PinId = std::uint64_t;  // given by whoever pins, each once; 0: none
inline constexpr PinId kMaxPinId = (PinId{1} << 56) - 1;

struct PinnedPrefix {
  PinId id = 0;
  std::int32_t num_blocks = 0;  // of its tokens
  std::int64_t num_pages = 0;   // that it holds
  std::int64_t num_hits = 0;    // requests that found all of it when they first started

  bool operator==(const PinnedPrefix&) const = default;
};

// The block tables stay with the manager that each call is given; always the same one.
class PinnedPrefixes {
 public:
  // The first `num_blocks` blocks of `tokens`, computed in this scope. False, and nothing changed,
  // where the prefix cache has not all that they need any more.
  bool add(PinId id, std::span<const TokenId> tokens, std::int32_t num_blocks,
           const CacheScope& scope, KvCacheManager& kv);
  bool remove(PinId id, KvCacheManager& kv);  // false: there is none
  void clear(KvCacheManager& kv);

  // A request has started. Counts the pins with which it begins; returns the tokens of the longest.
  std::int32_t count_hits(RequestId request_id, const KvCacheManager& kv);

  std::span<const PinnedPrefix> all() const { return pins_; }  // in the order of their making
  const PinnedPrefix* find(PinId id) const;                    // nullptr: there is none
  std::int64_t num_pages() const;                              // of all, also where they share some

  // Fills one that is empty, whose tables are there; check_invariants() says whether they are.
  void restore(std::vector<PinnedPrefix> pins) { pins_ = std::move(pins); }
  // kInternal unless each holds its blocks, and these can be found.
  Status check_invariants(const KvCacheManager& kv) const;

 private:
  std::vector<PinnedPrefix> pins_;
};

}  // namespace quire
