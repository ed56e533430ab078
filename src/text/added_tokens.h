// Finds added tokens (control tokens and other text that is one token whatever surrounds it) before
// the rest of a text is cut into words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "text/vocab_data.h"

namespace quire {

// Where special tokens may be recognised: stretches of a text, sorted, neither touching nor
// overlapping. Elsewhere their spelling is ordinary text.
class SpecialRanges {
 public:
  static SpecialRanges nowhere() { return {}; }
  static SpecialRanges everywhere(std::string_view text) {
    SpecialRanges ranges;
    ranges.add(0, text.size());
    return ranges;
  }

  // Must start at or after the last one's end; joins it if it touches.
  void add(std::size_t begin, std::size_t end);
  bool cover(std::size_t begin, std::size_t end) const;

 private:
  std::vector<std::pair<std::size_t, std::size_t>> ranges_;
};

// A trie of contents. Of the tokens that start leftmost the longest wins. Time is linear in the
// text for a given set of tokens: each position costs at most the longest content.
class AddedTokenMatcher {
 public:
  // [begin, end) becomes `id`; what lies between matches is not touched. The search goes on at
  // `next`: before `end` where the token includes white space on its right, which may begin others.
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t next = 0;
    TokenId id = 0;
  };

  // Contents must not be empty. Of equal contents the first counts.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }

  // The first match at or after `from`; it includes white space on its left from `taken` at most.
  std::optional<Match> next(std::string_view text, std::size_t from, std::size_t taken,
                            const SpecialRanges& special_ranges) const;

 private:
  static constexpr std::int32_t kNoToken = -1;
  struct Node {
    std::int32_t token = kNoToken;  // index in tokens_ of the content that ends here
    std::vector<std::pair<char, std::uint32_t>> children;
  };

  const Node* child(const Node& node, char byte) const;
  const AddedToken* longest_at(std::string_view text, std::size_t begin,
                               const SpecialRanges& special_ranges) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<bool, 256> begins_{};  // whether a content begins with the byte
};

}  // namespace quire
