// Why a prompt was not found in the prefix cache, or not to its end: what is told of it, and the
// memory of blocks that the cache has given up, from which that is known.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace quire {

enum class PrefixMissCause : std::uint8_t {
  kNone,      // all was found that may be: the last token is always computed
  kOff,       // there is no prefix cache
  kTooShort,  // a prompt of one token
  // Something is wanted of the prompt's tokens that nobody keeps: log probabilities or states.
  kWanted,
  kNew,       // nothing that is cached in the request's scope begins with its first token
  kEnds,      // the closest cached prefix ends where the prompt goes on
  kDiffers,   // it goes on with another token
  kEvicted,   // the block was cached, and its pages were needed for something else
  kReset,     // it was cached until the prefix cache was emptied
  kNoRoom,    // a part of a block was found, and there was no page for its copy
  kInFlight,  // another request was computing it
};
inline constexpr std::size_t kNumPrefixMissCauses = 11;
std::string_view prefix_miss_name(PrefixMissCause cause);  // "none", "off", "too_short" and so on

struct PrefixMiss {
  PrefixMissCause cause = PrefixMissCause::kNone;
  std::int32_t num_found = 0;                // tokens before the first that was not found
  std::int32_t num_pinned = 0;               // of these: those of the longest pinned prefix
  std::optional<TokenId> token = {};         // that one, unless all was found
  std::optional<TokenId> cached_token = {};  // kDiffers: what the closest cached prefix has there
  std::optional<RequestId> by = {};          // who needed the pages, or computes it, where known
  std::optional<Duration> age = {};          // kEvicted: how long ago, where known
};

// What blocks the prefix cache has lost of late, by the hashes of their nodes (PrefixIndex). It
// explains and decides nothing: a later loss may take an earlier one's place, and of two nodes with
// one hash the one is mistaken for the other. Allocates nothing after construction.
class LostBlocks {
 public:
  struct Loss {
    std::uint64_t hash = 0;
    std::optional<RequestId> by = {};  // none: the prefix cache was emptied
    Instant when{};
  };

  explicit LostBlocks(std::int32_t num_pages)
      : losses_(num_pages > 0 ? std::bit_ceil(static_cast<std::size_t>(num_pages)) : 0) {}
  // At most, of each page.
  static constexpr std::uint64_t kBytesPerPage = 2 * sizeof(std::optional<Loss>);

  void add(const Loss& loss) { losses_[loss.hash & (losses_.size() - 1)] = loss; }
  std::optional<Loss> find(std::uint64_t hash) const {
    if (losses_.empty()) return std::nullopt;
    const auto& place = losses_[hash & (losses_.size() - 1)];
    return place && place->hash == hash ? place : std::nullopt;
  }

 private:
  std::vector<std::optional<Loss>> losses_;
};

}  // namespace quire
