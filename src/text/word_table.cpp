#include "text/word_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace quire {

namespace {

// A cache begins after so many words, has so many slots, and starts anew when so many bytes or ids
// have gone in.
constexpr std::size_t kWordsBeforeCache = 64;
constexpr std::size_t kCacheSlots = 8192;
constexpr std::size_t kCacheBytes = 1U << 20;
// Longer words seldom come twice.
constexpr std::size_t kMaxCachedWord = 64;

// A cache of short words has so many slots at first and at most.
constexpr std::size_t kFirstShortSlots = 512;
constexpr std::size_t kMostShortSlots = 8192;

template <typename Word>
std::uint64_t bytes_of(const char* data) {
  Word bytes = 0;
  std::memcpy(&bytes, data, sizeof(bytes));
  return bytes;
}

}  // namespace

std::uint64_t hash_word(std::string_view word) {
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15U;
  std::uint64_t hash = word.size() * kFactor;
  const char* data = word.data();
  std::size_t left = word.size();
  const auto mix = [&hash](std::uint64_t bytes) {
    hash = (hash ^ bytes) * kFactor;
    hash ^= hash >> 29;
  };
  for (; left >= 8; data += 8, left -= 8) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, data, 8);
    mix(bytes);
  }
  if (left >= 4) {
    std::uint32_t low = 0;
    std::uint32_t high = 0;  // may overlap
    std::memcpy(&low, data, 4);
    std::memcpy(&high, data + left - 4, 4);
    mix((std::uint64_t{high} << 32) | low);
  } else if (left > 0) {
    const auto byte = [&](std::size_t i) {
      return std::uint64_t{static_cast<unsigned char>(data[i])};
    };
    mix(byte(0) | (byte(left / 2) << 8) | (byte(left - 1) << 16));
  }
  hash *= kFactor;
  return hash ^ (hash >> 32);
}

ShortWordCache::Key::Key(std::string_view word) : size(static_cast<std::uint32_t>(word.size())) {
  const char* data = word.data();
  const char* end = data + size;
  if (size >= 8) {  // the two may overlap, and the halves below
    low = bytes_of<std::uint64_t>(data);
    high = bytes_of<std::uint64_t>(end - 8);
  } else if (size >= 4) {
    low = bytes_of<std::uint32_t>(data) | bytes_of<std::uint32_t>(end - 4) << 32;
  } else {
    low = bytes_of<std::uint8_t>(data) | bytes_of<std::uint8_t>(data + size / 2) << 8 |
          bytes_of<std::uint8_t>(end - 1) << 16;
  }
}

void ShortWordCache::grow() {
  const std::vector<Slot> old =
      std::exchange(slots_, std::vector<Slot>(std::max(kFirstShortSlots, 4 * slots_.size())));
  shift_ = 64 - std::countr_zero(slots_.size());
  for (const Slot& slot : old) {
    if (slot.size == 0) continue;
    slots_[slot_of(slot.low, slot.high, slot.size)] = slot;
  }
}

void ShortWordCache::insert(const Key& key, std::span<const TokenId> ids) {
  if (ids.empty() || ids.size() > kMaxIds || ++inserted_ < kWordsBeforeCache) return;
  if (slots_.size() < std::min(kMostShortSlots, inserted_)) grow();
  Slot& slot = slots_[slot_of(key.low, key.high, key.size)];
  slot = {.low = key.low,
          .high = key.high,
          .size = static_cast<std::uint16_t>(key.size),
          .count = static_cast<std::uint16_t>(ids.size())};
  std::ranges::copy(ids, slot.ids);
}

WordTable::WordTable(std::size_t expected_words)
    : slots_(std::bit_ceil(std::max<std::size_t>(16, expected_words * 2))) {}

std::size_t WordTable::slot_of(std::string_view word, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto short_hash = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.size == 0) return at;
    if (slot.hash == short_hash && slot.size == word.size() &&
        std::memcmp(bytes_.data() + slot.begin, word.data(), word.size()) == 0) {
      return at;
    }
  }
}

void WordTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.size == 0) continue;
    const std::string_view word(bytes_.data() + slot.begin, slot.size);
    slots_[slot_of(word, hash_word(word))] = slot;
  }
}

void WordTable::insert(std::string_view word, TokenId id) {
  if ((used_ + 1) * 2 > slots_.size()) grow();
  const std::uint64_t hash = hash_word(word);
  Slot& slot = slots_[slot_of(word, hash)];
  if (slot.size != 0 || word.empty()) return;
  slot = {static_cast<std::uint32_t>(hash >> 32), static_cast<std::uint32_t>(bytes_.size()),
          static_cast<std::uint32_t>(word.size()), id};
  bytes_ += word;
  ++used_;
}

std::optional<TokenId> WordTable::find(std::string_view word, std::uint64_t hash) const {
  const Slot& slot = slots_[slot_of(word, hash)];
  if (slot.size == 0) return std::nullopt;
  return slot.id;
}

std::span<const TokenId> WordCache::find(std::string_view word, std::uint64_t hash) const {
  if (slots_.empty()) return {};
  const Slot& slot = slots_[hash & (kCacheSlots - 1)];
  if (slot.hash != hash || slot.size != word.size() ||
      std::memcmp(bytes_.data() + slot.begin, word.data(), word.size()) != 0) {
    return {};
  }
  return std::span(ids_).subspan(slot.ids_begin, slot.ids_size);
}

void WordCache::insert(std::string_view word, std::uint64_t hash, std::span<const TokenId> ids) {
  if (word.empty() || word.size() > kMaxCachedWord || ++inserted_ < kWordsBeforeCache) return;
  if (slots_.empty() || bytes_.size() > kCacheBytes || ids_.size() > kCacheBytes) {
    slots_.assign(kCacheSlots, {});
    bytes_.clear();
    ids_.clear();
  }
  slots_[hash & (kCacheSlots - 1)] = {
      hash, static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(word.size()),
      static_cast<std::uint32_t>(ids_.size()), static_cast<std::uint32_t>(ids.size())};
  bytes_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
}

}  // namespace quire
