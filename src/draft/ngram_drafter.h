// Prompt lookup (Saxena 2023; Yang et al. 2023, "Inference with Reference"): where the last tokens
// of a request stand in it before, what followed there may follow here. The longest match counts,
// the latest of several; where it runs into the request's end it goes on with what is guessed, so
// that what repeats itself is guessed for as long as it may be.
#pragma once

#include "draft/drafter.h"
#include "draft/request_texts.h"

namespace quire {

class NgramDrafter final : public Drafter {
 public:
  NgramDrafter(const SpeculativeConfig& config, std::uint64_t max_bytes);

  // The lengths whose grams are indexed: the shortest match, and doubles of it up to the longest.
  static std::vector<std::int32_t> grams(const SpeculativeConfig& config);

  bool begin(RequestId request_id, std::size_t max_tokens) override;
  void read(RequestId request_id, std::span<const TokenId> tokens) override;
  void draft(RequestId request_id, std::span<const TokenId> tokens, std::int32_t most,
             Draft& draft) override;
  void end(RequestId request_id, std::span<const TokenId> output) override;

 private:
  std::int32_t longest_;
  RequestTexts texts_;
  std::vector<TokenIndex::Match> matches_;  // kept from call to call
};

}  // namespace quire
