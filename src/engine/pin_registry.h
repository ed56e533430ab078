// The names of pinned prefixes: who has pinned what, and until when. A scheduler knows them as
// numbers, and neither names nor times (core/pinned_prefixes.h).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "core/pinned_prefixes.h"
#include "engine/api.h"

namespace quire {

// What of a request for a pin is wrong, whatever is pinned.
Status check_pin(const PinName& pin, std::size_t num_prompt_tokens, std::int32_t block_size);

// Any thread.
class PinRegistry {
 public:
  static constexpr std::int64_t kMaxOfOwner = 64;
  static constexpr std::int64_t kMaxOfAll = 256;  // each request that starts looks at them

  // A prompt is to be pinned by this name, under the number that is returned.
  // kResourceExhausted where the owner, or all of them, have as many names as may be.
  Result<PinId> begin(const PinName& pin, std::span<const TokenId> tokens, const CacheScope& scope);
  // It is computed, and pinned unless `pinned` is null. Returns the pin that had its name.
  std::optional<PinId> computed(PinId id, const PinnedPrefix* pinned, Instant now);
  // It will not be computed. No effect once it is.
  void abandon(PinId id);

  // The same prompt is pinned by this name already, from now on for that long; false: it is not.
  bool renew(const PinName& pin, std::span<const TokenId> tokens, const CacheScope& scope,
             Instant now);
  // The pin that has the name, which it loses. kNotFound.
  Result<PinId> remove(std::string_view owner, std::string_view name);
  void clear();  // no name is left but of what is not computed yet
  // Those whose time is over lose their names.
  std::vector<PinId> take_expired(Instant now);
  std::optional<Instant> next_expiry() const;

  // Those of an owner, by name. `pinned`: as the scheduler has them.
  std::vector<PinState> list(std::string_view owner, std::span<const PinnedPrefix> pinned,
                             std::int32_t block_size) const;

 private:
  using Key = std::pair<std::string, std::string>;  // owner, name
  struct Prompt {
    std::vector<TokenId> tokens;
    CacheScope scope;
  };
  struct Pin {
    PinId id = 0;
    Prompt prompt;
    Instant expires_at{};
  };
  struct Begun {
    Key key;
    Prompt prompt;
    Duration ttl{};
  };

  Status check_room(const Key& key) const;

  mutable std::mutex mutex_;
  PinId last_id_ = 0;
  std::map<Key, Pin> pins_;
  std::map<PinId, Begun> begun_;
};

}  // namespace quire
