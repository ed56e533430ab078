// Cutting a word into the pieces of a unigram language model: those whose scores add up to most.
// Kudo, "Subword Regularization" (2018). Internal to src/text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace quire {

// The pieces as a tree by bytes, filled once.
class PieceTree {
 public:
  // The first of two equal pieces stays. `piece` is not empty.
  void insert(std::string_view piece, TokenId id, double score);

  // The node below `node` by `byte`, or -1. The root is 0.
  std::int32_t child(std::int32_t node, unsigned char byte) const;
  // The piece that ends at a node; -1: none.
  TokenId id_at(std::int32_t node) const { return ends_[static_cast<std::size_t>(node)].id; }
  double score_at(std::int32_t node) const { return ends_[static_cast<std::size_t>(node)].score; }

 private:
  struct End {
    TokenId id = -1;
    double score = 0;
  };
  struct Edge {
    std::uint64_t key = kNoEdge;  // node and byte
    std::int32_t child = -1;
  };
  static constexpr std::uint64_t kNoEdge = UINT64_MAX;

  std::size_t slot_of(std::uint64_t key) const;
  void grow();

  std::vector<End> ends_{1};
  std::vector<Edge> edges_ = std::vector<Edge>(64);  // a power of two, at most half full
  std::size_t used_ = 0;
};

// Cuts words, with scratch memory that is kept from one word to the next. Borrows the tree.
class UnigramCutter {
 public:
  struct Piece {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    TokenId id = -1;  // -1: characters that no piece spells, all that stand together
  };

  explicit UnigramCutter(const PieceTree& tree) : tree_(&tree) {}

  // The pieces of `word` in order; of equal sums the one found first, as the tokenizers library has
  // it. A character that is no piece by itself counts `unknown_score`. Linear in the word, by the
  // longest piece. `cancelled` is asked every few thousand characters, unless it is empty; true:
  // false. A word must have less than 2^32 bytes.
  bool cut(std::string_view word, double unknown_score, std::vector<Piece>& pieces,
           const std::function<bool()>& cancelled = {});

 private:
  // The best way to a position.
  struct Best {
    double score = 0;
    std::uint32_t begin = UINT32_MAX;  // of its last piece; UINT32_MAX: none leads there
    TokenId id = -1;
  };

  void reach(std::size_t begin, std::size_t end, double score, TokenId id);

  const PieceTree* tree_;
  std::vector<Best> best_;
};

}  // namespace quire
