// Suffix decoding (Oliaro et al. 2024): the longest match of a request's last tokens in itself, and
// where it is allowed in outputs of others, is a node of a suffix tree; below it the most frequent
// token is taken, again and again, for as long as it followed often enough. Where several paths are
// allowed, the token is taken that is most probable of all that may follow those taken so far. The
// suffix tree is not built: the places of the node are those that an index finds (the latest
// kMaxVisited of them), and those that go on alike are the child. Of the texts the one with the
// higher score counts: the sum of how probable the drafts are by that count.
//
// A longest match has often stood at one place only, which knows no second choice. So for trees
// shorter matches count too, as in prediction by partial matching: n places that go on in d ways
// say what follows with probability n / (n + d), and leave the rest to the next shorter match
// (Moffat 1990, method C). Something unheard of takes 1 / (m + 2) of what the shortest leave, after
// a match of m tokens (rule of succession: it has been right m times), so that a long path does not
// seem as sure as its beginning.
#pragma once

#include <array>

#include "draft/lookup_drafter.h"
#include "draft/shared_outputs.h"

namespace quire {

class SuffixDrafter final : public LookupDrafter {
 public:
  SuffixDrafter(const SpeculativeConfig& config, std::uint64_t max_bytes,
                std::size_t max_shared_tokens);

  static constexpr std::array<std::int32_t, 3> kGrams = {2, 4, 8};

  bool branches() const override { return config_.suffix_max_tree_width > 1; }
  void look_up(const TokenIndex& index, std::span<const TokenId> tokens, std::int32_t most,
               Draft& draft) override;
  void end(RequestId request_id, std::span<const TokenId> output) override;

 private:
  // Of `text` after the matches that find() gave; returns the score.
  double follow(std::span<const TokenId> text, bool own, std::int32_t most, Draft& draft);
  // A token that may follow a draft (or the text), as so many of its places go on.
  struct Choice {
    std::int32_t parent = 0;
    TokenId token = 0;
    std::int32_t count = 0;
    double probability = 0;  // that all up to it are right
  };
  // A draft, or the text: where it stands, and what of it is taken so far.
  struct Node {
    std::int32_t depth = 0;
    double probability = 1;
    bool followed = false;
  };
  TokenId token_after(const TokenIndex::Match& match, std::int32_t node,
                      std::span<const TokenId> text, bool own, const Draft& draft) const;
  void offer_choices(std::int32_t node, std::span<const TokenId> text, bool own,
                     const Draft& draft);
  void keep_matches(std::int32_t longest);
  const Choice* best_choice(std::int32_t num_paths) const;
  Node& node_of(std::int32_t draft) { return nodes_[static_cast<std::size_t>(draft + 1)]; }

  SpeculativeConfig config_;
  SharedOutputs shared_;
  // Kept from call to call.
  std::vector<Choice> choices_;
  std::vector<Node> nodes_;             // the text, then each draft
  std::vector<std::int32_t> followed_;  // of each match: the draft that it has been followed to
  Draft other_;
};

}  // namespace quire
