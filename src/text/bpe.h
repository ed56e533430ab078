// The merge step of BPE: repeatedly replace the adjacent pair of the lowest rank, the leftmost of
// equals, until no pair merges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/ids.h"

namespace quire {

// Which pairs merge, when, and into what. Open addressing, filled once.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank = kNoRank;
    TokenId merged = -1;
  };
  static constexpr std::uint32_t kNoRank = UINT32_MAX;

  explicit MergeTable(std::size_t expected_pairs);

  // Ids must not be negative. The first merge of a pair stays.
  void insert(TokenId left, TokenId right, Merge merge);

  // Rank kNoRank if the pair does not merge.
  Merge find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    std::uint64_t pair = kEmpty;
    Merge merge;
  };
  static constexpr std::uint64_t kEmpty = UINT64_MAX;  // no pair of ids >= 0 has this key

  std::size_t slot_of(std::uint64_t pair) const;
  void grow();

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::size_t used_ = 0;
};

// Merges words, with scratch memory that is kept from one word to the next. Borrows the table.
class BpeMerger {
 public:
  explicit BpeMerger(const MergeTable& table) : table_(&table) {}

  // Merges in place; `symbols` shrinks. O(n log n). `cancelled` is asked every few thousand merges
  // of a long word, unless it is empty; true: merging stops, and the result is false. A word must
  // have less than 2^32 symbols.
  bool merge(std::vector<TokenId>& symbols, const std::function<bool()>& cancelled = {});

 private:
  // Of 32 bits each: the memory of a long word is mostly these.
  struct Node {
    TokenId id;
    std::uint32_t previous;
    std::uint32_t next;
  };
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t left;  // node of the left part
  };

  void merge_short(std::vector<TokenId>& symbols);
  bool merge_long(std::vector<TokenId>& symbols, const std::function<bool()>& cancelled);
  void push_candidate(std::uint32_t left);

  const MergeTable* table_;
  std::vector<Node> nodes_;
  std::vector<Candidate> heap_;
};

}  // namespace quire
