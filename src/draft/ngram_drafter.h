// Prompt lookup (Saxena 2023; Yang et al. 2023, "Inference with Reference"): where the last tokens
// of a request stand in it before, what followed there may follow here. The longest match counts,
// the latest of several; where it runs into the request's end it goes on with what is guessed, so
// that what repeats itself is guessed for as long as it may be.
#pragma once

#include "draft/lookup_drafter.h"

namespace quire {

class NgramDrafter final : public LookupDrafter {
 public:
  NgramDrafter(const SpeculativeConfig& config, std::uint64_t max_bytes);

  // The lengths whose grams are indexed: the shortest match, and doubles of it up to the longest.
  static std::vector<std::int32_t> grams(const SpeculativeConfig& config);

  void look_up(const TokenIndex& index, std::span<const TokenId> tokens, std::int32_t most,
               Draft& draft) override;

 private:
  std::int32_t longest_;
};

}  // namespace quire
