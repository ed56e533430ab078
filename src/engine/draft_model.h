// A small model that guesses what a large one will say (Leviathan et al. 2023; Chen et al. 2023).
// It draws its tokens with the large one's parameters and random numbers, so that where the two
// distributions are alike the guess is what the large one draws, sampled outputs included.
//
// It keeps keys and values of its own, of each request as far as it has read its tokens. A wrong
// guess is dropped when the request's tokens come; a request that comes late, or lost its place
// to another, is read again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "draft/drafter.h"
#include "engine/draft_runner.h"

namespace quire {

// What guesses depend on of a request's parameters, and of what else they ask for only the log
// probability of each guess. So many choices come for each place. `reduced`: the drafter's ids are
// not the model's, so what names tokens does not count.
std::shared_ptr<const SamplingParams> drafting_params(const SamplingParams& params,
                                                      std::int64_t num_choices = 1,
                                                      bool reduced = false);

class DraftModel final : public Drafter {
 public:
  // `tree`: Drafter::tree(), of which only first choices are continued.
  DraftModel(std::unique_ptr<DraftRunner> runner, std::span<const std::int32_t> tree);

  bool begin(const DraftedRequest& request) override;
  void read(RequestId /*request_id*/, std::span<const TokenId> /*tokens*/) override {}
  // Nobody else may compute on the device meanwhile. A step reads max_num_batched_tokens of prompts
  // at most: of a longer one nothing is guessed until it is read. After a step that fails, which is
  // logged, nothing is guessed any more.
  DraftWork draft(std::span<const DraftWish> wishes) override;
  std::size_t num_unread(RequestId request_id, std::span<const TokenId> tokens) const override;
  bool computes() const override { return true; }
  bool estimates() const override { return tree_.empty(); }
  std::span<const std::int32_t> tree() const override { return tree_; }
  void end(RequestId request_id, std::span<const TokenId> output) override;

 private:
  struct Followed {
    DraftedRequest request;
    DraftRunner::Sequence* sequence = nullptr;
    std::vector<TokenId> computed;  // tokens with keys and values, guesses among them
    std::size_t num_known = 0;      // of these, that the request had at the last call
  };

  // Gives back what was computed of tokens that are not `tokens`, of which the last is always
  // computed again.
  void rewind(Followed& followed, std::span<const TokenId> tokens);
  // Adds a request, as far as the step has room for it, to its first step.
  void lay_out(const DraftWish& wish);

  std::unique_ptr<DraftRunner> runner_;
  std::vector<std::int32_t> tree_;
  std::unordered_map<RequestId, Followed> followed_;
  bool read_prompts_ = false;
  std::vector<DraftRunner::Guessing> guessing_;  // kept from call to call
};

}  // namespace quire
