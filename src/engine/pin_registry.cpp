#include "engine/pin_registry.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {

Status check_pin(const PinName& pin, std::size_t num_prompt_tokens, std::int32_t block_size) {
  constexpr std::size_t kMaxName = 64;
  constexpr Duration kLeast = std::chrono::seconds(1);
  constexpr Duration kMost = std::chrono::hours(24);
  const bool named = !pin.name.empty() && pin.name.size() <= kMaxName &&
                     std::ranges::all_of(pin.name, [](unsigned char c) {
                       return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '.' || c == '_' || c == ':' ||
                              c == '-';
                     });
  if (!named) {
    return Status::invalid_argument(
        fmt::format("name: expected 1 to {} letters, digits, and any of . _ : -", kMaxName));
  }
  if (pin.ttl < kLeast || pin.ttl > kMost) {
    return Status::invalid_argument("ttl_seconds: expected 1 to 86400, which is a day");
  }
  if (num_prompt_tokens < static_cast<std::size_t>(block_size)) {
    return Status::invalid_argument(
        fmt::format("the prompt has {} tokens; what is pinned are blocks of {}", num_prompt_tokens,
                    block_size),
        "pin a longer prompt, or start with a smaller --block-size");
  }
  return {};
}

// Names that are to be, and are not yet, count once.
Status PinRegistry::check_room(const Key& key) const {
  std::vector<const Key*> names;
  for (const auto& [name, pin] : pins_) names.push_back(&name);
  for (const auto& [id, begun] : begun_) {
    if (!pins_.contains(begun.key)) names.push_back(&begun.key);
  }
  if (std::ranges::any_of(names, [&](const Key* each) { return *each == key; })) return {};
  const std::int64_t num_own =
      std::ranges::count_if(names, [&](const Key* each) { return each->first == key.first; });
  if (num_own < kMaxOfOwner && std::ssize(names) < kMaxOfAll) return {};
  return Status::resource_exhausted(
      fmt::format("{} prefixes are pinned, {} of them by this key; at most {} and {} may",
                  names.size(), num_own, kMaxOfAll, kMaxOfOwner),
      "unpin one that is not needed any more, or wait until its time is over");
}

Result<PinId> PinRegistry::begin(const PinName& pin, std::span<const TokenId> tokens,
                                 const CacheScope& scope) {
  const std::lock_guard lock(mutex_);
  const Key key(pin.owner, pin.name);
  QUIRE_RETURN_IF_ERROR(check_room(key));
  begun_[++last_id_] = {
      .key = key, .prompt = {{tokens.begin(), tokens.end()}, scope}, .ttl = pin.ttl};
  return last_id_;
}

std::optional<PinId> PinRegistry::computed(PinId id, const PinnedPrefix* pinned, Instant now) {
  const std::lock_guard lock(mutex_);
  auto begun = begun_.extract(id);
  if (pinned == nullptr) return std::nullopt;
  if (begun.empty()) return id;  // nobody can name it
  std::optional<PinId> before;
  Pin& pin = pins_[begun.mapped().key];
  if (pin.id != 0) before = pin.id;
  pin = {
      .id = id, .prompt = std::move(begun.mapped().prompt), .expires_at = now + begun.mapped().ttl};
  return before;
}

void PinRegistry::abandon(PinId id) {
  const std::lock_guard lock(mutex_);
  begun_.erase(id);
}

bool PinRegistry::renew(const PinName& pin, std::span<const TokenId> tokens,
                        const CacheScope& scope, Instant now) {
  const std::lock_guard lock(mutex_);
  const auto found = pins_.find(Key(pin.owner, pin.name));
  if (found == pins_.end() || found->second.prompt.scope != scope ||
      !std::ranges::equal(found->second.prompt.tokens, tokens)) {
    return false;
  }
  found->second.expires_at = now + pin.ttl;
  return true;
}

Result<PinId> PinRegistry::remove(std::string_view owner, std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = pins_.find(Key(owner, name));
  if (found == pins_.end()) {
    return Status::not_found(fmt::format("no prefix is pinned by the name {}", printable(name)),
                             "it may have expired; GET /v1/prefixes lists those that are pinned");
  }
  const PinId id = found->second.id;
  pins_.erase(found);
  return id;
}

void PinRegistry::clear() {
  const std::lock_guard lock(mutex_);
  pins_.clear();
}

std::vector<PinId> PinRegistry::take_expired(Instant now) {
  const std::lock_guard lock(mutex_);
  std::vector<PinId> expired;
  std::erase_if(pins_, [&](const auto& each) {
    if (each.second.expires_at > now) return false;
    expired.push_back(each.second.id);
    return true;
  });
  return expired;
}

std::optional<Instant> PinRegistry::next_expiry() const {
  const std::lock_guard lock(mutex_);
  std::optional<Instant> next;
  for (const auto& [key, pin] : pins_)
    next = std::min(next.value_or(pin.expires_at), pin.expires_at);
  return next;
}

std::vector<PinState> PinRegistry::list(std::string_view owner,
                                        std::span<const PinnedPrefix> pinned,
                                        std::int32_t block_size) const {
  const std::lock_guard lock(mutex_);
  std::vector<PinState> states;
  for (const auto& [key, pin] : pins_) {
    const auto found = std::ranges::find(pinned, pin.id, &PinnedPrefix::id);
    if (key.first != owner || found == pinned.end()) continue;
    states.push_back({.name = key.second,
                      .num_tokens = std::int64_t{found->num_blocks} * block_size,
                      .num_blocks = found->num_pages,
                      .expires_at = pin.expires_at,
                      .num_hits = found->num_hits});
  }
  return states;
}

}  // namespace quire
