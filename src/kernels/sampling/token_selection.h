// Draws a token from logits: temperature, min_p, top_k, top_p, then one random number. Never sorts
// the vocabulary: blocks of tokens that weigh too little to be kept are not looked at, what is kept
// of the others is found by counting into ranges of weights, and only the range through which the
// border goes is sorted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kernels/row_kernels.h"
#include "kernels/sampling_args.h"

namespace quire {

// Scratch of one worker.
class TokenSelection {
 public:
  explicit TokenSelection(std::int64_t vocab_size);
  static std::uint64_t bytes(std::int64_t vocab_size);

  // The token at draw.uniform of the distribution that `draw` (not greedy) makes of `logits`,
  // tokens in order of id. At least one logit must be finite; max_logit is the largest. Ties at a
  // border go to the lower id.
  TokenId draw(const RowKernels& kernels, const TokenDraw& draw, std::span<const float> logits,
               float max_logit);

 private:
  struct Candidate {
    float logit;
    float weight;
    TokenId token;
  };
  static bool before(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  }

  std::span<const float> weights_of(std::size_t block) const;
  double total() const;
  double candidate_weight() const;
  TokenId draw_from_all(double uniform) const;
  TokenId draw_from_candidates(double uniform) const;
  void gather(std::span<const float> logits, float min_weight);
  void gather_top_p(std::span<const float> logits, double top_p, double total);
  float weight_of_rank(std::int64_t rank);
  void keep_top_k(std::int64_t top_k);
  void keep_top_p(double top_p, double total);

  std::vector<float> weights_;         // [vocab_size]
  std::vector<TokenBlock> blocks_;     // of them
  std::vector<float> largest_;         // of the blocks, in any order
  std::vector<Candidate> candidates_;  // what is kept, in order of id
  std::vector<Candidate> border_;      // those in the range through which the border goes
};

}  // namespace quire
