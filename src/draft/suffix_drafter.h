// Suffix decoding (Oliaro et al. 2024): the longest match of a request's last tokens in itself, and
// where it is allowed in outputs of others, is a node of a suffix tree; below it the most frequent
// token is taken, again and again, for as long as it followed often enough. The tree is not built:
// the places of the node are those that an index finds (the latest kMaxVisited of them), and those
// that go on alike are the child. Of the texts the one with the higher score counts: the sum of how
// probable the drafts are by that count.
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

  void look_up(const TokenIndex& index, std::span<const TokenId> tokens, std::int32_t most,
               Draft& draft) override;
  void end(RequestId request_id, std::span<const TokenId> output) override;

 private:
  // Of `text` after the matches that find() gave; returns the score.
  double follow(std::span<const TokenId> text, bool own, std::int32_t most, Draft& draft);
  struct Vote {
    TokenId token = 0;
    std::int32_t count = 0;
  };

  SpeculativeConfig config_;
  SharedOutputs shared_;
  // Kept from call to call.
  std::vector<Vote> votes_;
  Draft other_;
};

}  // namespace quire
