// Beam search: of all that may follow a prompt, the outputs with the best scores, followed in
// parallel. A pure function of log probabilities; it knows no request, no block and no step.
//
// The rules are those of transformers' generate(num_beams=beam_width, do_sample=False)
// (GenerationMixin._beam_search). In each step every beam has candidates, its most probable next
// tokens, with the sum of the log probabilities of all its tokens:
//
//  - Of the beam_width best candidates of all beams, those that end an output (a token that does,
//  or
//    max_tokens) are finished, with the score  log probability / length^length_penalty,  where
//    length counts the output's tokens, the one that ends it too. The beam_width best finished
//    ones are kept.
//  - The beam_width best candidates that end none are the next beams.
//  - It is over at max_tokens, and with beam_width finished outputs as EarlyStopping says: where
//    the best beam, at its present length (kNever with a positive length_penalty: at max_tokens),
//    would score no better than the worst of them.
//
// transformers adds up in float, this in double; of equal candidates the one of the better beam
// comes first, and of one beam's that of the lower id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/token_scores.h"
#include "core/beam_report.h"
#include "core/finish_reason.h"
#include "core/sampling_params.h"

namespace quire {

struct BeamSearchRules {
  std::int32_t width = 1;
  double length_penalty = 1;
  EarlyStopping early_stopping = EarlyStopping::kWhenUnlikely;
  std::int32_t max_tokens = 1;  // of an output
  // Of each output token; -1: not wanted.
  std::int32_t num_top_logprobs = -1;
};

class BeamSearch {
 public:
  struct Beam {
    std::vector<TokenId> token_ids;  // prompt, then output
    double cumulative_logprob = 0;   // of the output
    // Of its output tokens, and of as many most probable ones at each position; where wanted.
    std::vector<TokenLogprob> logprobs;
    std::vector<TokenLogprob> top_logprobs;
    std::int32_t parent = 0;  // which of the beams before the last step it goes on
  };
  struct Finished {
    Beam beam;
    double score = 0;
    bool stopped = false;  // by its last token; else by its length
  };

  // One beam, which is the prompt; not empty.
  BeamSearch(const BeamSearchRules& rules, std::span<const TokenId> prompt_token_ids);

  // candidates[i]: beam i's most probable next tokens, the best first, at least
  // SamplingParams::num_beam_candidates() of them or all that there are. `ending_token_ids` is
  // sorted. Not once it is over.
  void advance(std::span<const std::span<const TokenLogprob>> candidates,
               std::span<const TokenId> ending_token_ids);

  // The beams that go on, the best first, all of one length.
  std::span<const Beam> beams() const { return beams_; }
  // The best first.
  std::span<const Finished> finished() const { return finished_; }
  bool over() const { return end_.has_value(); }
  BeamReport report() const;
  // Tokens that all beams begin with, the prompt at least.
  std::int32_t num_common_tokens() const;
  const BeamSearchRules& rules() const { return rules_; }

  // A search that goes on with these, which may come from anywhere: kInvalidArgument where no
  // search of these rules has them after `num_tokens` tokens and `num_forks` forks.
  static Result<BeamSearch> restore(const BeamSearchRules& rules,
                                    std::span<const TokenId> prompt_token_ids,
                                    std::int64_t num_tokens, std::vector<Beam> beams,
                                    std::vector<Finished> finished, std::int64_t num_forks);

 private:
  struct Choice;
  Beam extended(const Choice& choice, std::span<const TokenLogprob> candidates) const;
  void finish(Beam beam, bool stopped, std::int32_t length);
  std::optional<BeamEnd> end_at(std::int32_t length) const;
  double best_reachable(std::int32_t length) const;  // there are beams

  BeamSearchRules rules_;
  std::int32_t num_prompt_tokens_;
  std::vector<Beam> beams_;
  std::vector<Finished> finished_;
  std::int32_t num_output_tokens_ = 0;
  std::int64_t num_forks_ = 0;
  std::optional<BeamEnd> end_;
};

}  // namespace quire
