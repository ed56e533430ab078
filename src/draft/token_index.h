// Where in a text of tokens its end, or another's, has stood before: what prompt lookup needs.
//
// For each of a few lengths, grams of that many tokens are hashed to the place where the last one
// of their hash ends, and each place knows the one before it: the chains of LZ77's matchers (Ziv
// and Lempel 1977; RFC 1951, section 4), eight to twelve bytes a token and length. A look-up visits
// at most kMaxVisited places of a chain, the latest first, so it takes microseconds however long
// the text is. The text itself stays its owner's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace quire {

class TokenIndex {
 public:
  // Places of one chain that a look-up visits: a gram that stands there more often than that is
  // known by its latest ones.
  static constexpr int kMaxVisited = 64;

  // Of texts of up to `capacity` tokens. `grams`: ascending, each above 0.
  TokenIndex(std::size_t capacity, std::span<const std::int32_t> grams);
  static std::uint64_t bytes(std::size_t capacity, std::size_t num_grams);

  // Takes in the text's tokens up to and without `end`; it must begin with those taken in before.
  // What ends the text itself is thus not found as its own match where `end` is its size less one.
  void extend(std::span<const TokenId> text, std::size_t end);
  // So many tokens were taken in.
  std::size_t size() const { return size_; }
  void clear();

  // A place where the same tokens stand.
  struct Match {
    std::int32_t end = 0;     // the next token of the text there is text[end]
    std::int32_t length = 0;  // so many tokens before it are those at the end of `context`
  };
  // Places in `text` (which was taken in) with the last tokens of `context`, compared up to
  // `max_length`: those of the longest gram that has any, the latest first. At most kMaxVisited;
  // what `matches` held is gone.
  void find(std::span<const TokenId> text, std::span<const TokenId> context,
            std::int32_t max_length, std::vector<Match>& matches) const;

 private:
  struct Level {
    std::int32_t gram = 0;
    std::vector<std::int32_t> heads;     // by hash: the last end; -1: none
    std::vector<std::int32_t> previous;  // by end: the end before it of the same hash
  };
  std::size_t slot_of(const Level& level, std::span<const TokenId> gram) const;

  std::vector<Level> levels_;
  std::size_t mask_;
  std::size_t size_ = 0;
};

}  // namespace quire
