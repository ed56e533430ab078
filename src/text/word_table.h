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

// The last ids of each of a bounded number of words: a word takes the place of another whose hash
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

}  // namespace quire
