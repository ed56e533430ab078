// Words by their bytes: those that are one token (filled once, read by all threads), and those that
// one encode() call has merged already. Internal to src/text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace quire {

std::uint64_t hash_word(std::string_view word);

// Open addressing; the bytes of all words lie in one string.
class WordTable {
 public:
  explicit WordTable(std::size_t expected_words);

  // The first id of a word stays.
  void insert(std::string_view word, TokenId id);
  std::optional<TokenId> find(std::string_view word, std::uint64_t hash) const;

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t begin = 0;
    std::uint32_t size = 0;  // 0: free, for no word is empty
    TokenId id = -1;
  };

  std::size_t slot_of(std::string_view word, std::uint64_t hash) const;
  void grow();

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::size_t used_ = 0;
  std::string bytes_;
};

// The last ids of each of a bounded number of words: a word replaces another whose hash
// falls on the same slot. Takes memory only once a text has enough words to gain from it.
class WordCache {
 public:
  // Empty if the word is not there.
  std::span<const TokenId> find(std::string_view word, std::uint64_t hash) const;
  void insert(std::string_view word, std::uint64_t hash, std::span<const TokenId> ids);

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t begin = 0;  // in bytes_
    std::uint32_t size = 0;
    std::uint32_t ids_begin = 0;
    std::uint32_t ids_size = 0;
  };

  std::vector<Slot> slots_;
  std::string bytes_;
  std::vector<TokenId> ids_;
  std::size_t inserted_ = 0;
};

// The same of words of up to 16 bytes that are up to three ids, which most words of a text are: a
// slot is half a cache line and has all of it. Grows with the number of words that came in.
class ShortWordCache {
 public:
  static constexpr std::size_t kMaxBytes = 16;

  // The bytes of a word of 1 to kMaxBytes: no other word of its size has the same two numbers.
  struct Key {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    std::uint32_t size = 0;

    explicit Key(std::string_view word);
  };

  // Empty if the word is not there.
  std::span<const TokenId> find(const Key& key) const {
    if (slots_.empty()) return {};
    const Slot& slot = slots_[slot_of(key.low, key.high, key.size)];
    if (slot.low != key.low || slot.high != key.high || slot.size != key.size) return {};
    return std::span(slot.ids).first(slot.count);
  }
  // Nothing, if there are more ids.
  void insert(const Key& key, std::span<const TokenId> ids);

 private:
  static constexpr std::size_t kMaxIds = 3;

  struct Slot {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    TokenId ids[kMaxIds] = {};
    std::uint16_t size = 0;  // 0: free
    std::uint16_t count = 0;
  };

  std::size_t slot_of(std::uint64_t low, std::uint64_t high, std::uint32_t size) const {
    return (low * 0x9E3779B97F4A7C15U ^ (high + size) * 0xC2B2AE3D27D4EB4FU) >> shift_;
  }
  void grow();

  std::vector<Slot> slots_;  // a power of two
  int shift_ = 0;            // of a hash to the place of its slot
  std::size_t inserted_ = 0;
};

}  // namespace quire
