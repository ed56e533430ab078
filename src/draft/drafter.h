// Guesses at a request's next tokens. What is guessed never changes an output, only how many steps
// it takes: the executor checks each guess against the token that it samples there. Drafters of
// this folder look at tokens alone; one that computes, a model, is engine's.
//
//   drafter.begin(request);
//   drafter.read(id, tokens);  // while a step runs: long prompts
//   drafter.computed(step, result);
//   drafter.draft(wishes);     // between two steps
//   drafter.end(id, output);
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/draft_tree.h"
#include "base/ids.h"
#include "draft/speculative_config.h"

namespace quire {

struct GuessProspect;  // draft/guess_prospect.h
// core's; a drafter that looks up does not look at them
struct ModelRunnerOutput;
struct SamplingParams;
struct SchedulerOutput;

// A tree, or a chain (without parents); the likelier a token is thought to be, the earlier it
// comes.
struct Draft : DraftTree {
  std::int32_t match = 0;  // so many tokens before them were found elsewhere: the more, the better
  // Of a chain by one that estimates(): each token's, as the drafter has it.
  std::vector<float> probabilities = {};

  void clear() {
    DraftTree::clear();
    match = 0;
    probabilities.clear();
  }
};

// One output of a request, for which tokens will be guessed.
struct DraftedRequest {
  RequestId id = 0;
  std::size_t max_tokens = 0;  // prompt and output
  // How its tokens are drawn: with the random numbers of `sample_index`, by their places after the
  // prompt. Whoever guesses what was said before does without.
  std::int32_t num_prompt_tokens = 0;
  std::int32_t sample_index = 0;
  std::shared_ptr<const SamplingParams> sampling_params = nullptr;
};

// Guesses that are wanted.
struct DraftWish {
  RequestId request_id = 0;
  std::span<const TokenId> tokens;  // all of the request's
  std::int32_t most = 0;            // guesses at what follows them; none is common
  Draft* draft = nullptr;           // filled in; empty before
  // Of a drafter with a tree(): a part of it, which has `most` guesses, in its order.
  std::span<const std::int32_t> parents = {};
  // Of one that estimates(): what the guesses behind the first are worth. Where those of all wishes
  // are worth less than their time there are no more of them. Null: `most` are wanted in any case.
  const GuessProspect* prospect = nullptr;
};

// What draft() has done besides looking up.
enum class DraftWork : std::uint8_t {
  kNone,
  kSteps,   // a step for each guess of the longest path
  kPrompts  // it read prompts, too
};

class Drafter {
 public:
  virtual ~Drafter() = default;

  // A request begins. False: there is no memory left for it within the drafter's limit, and nothing
  // will be guessed for it.
  virtual bool begin(const DraftedRequest& request) = 0;
  // Takes in a request's tokens, which begin with those taken in before.
  virtual void read(RequestId request_id, std::span<const TokenId> tokens) = 0;
  // A step has been computed, and gave this: for whoever drafts from what the model computes.
  virtual void computed(const SchedulerOutput& /*step*/, const ModelRunnerOutput& /*result*/) {}
  // Each request at most once.
  virtual DraftWork draft(std::span<const DraftWish> wishes) = 0;
  // How many of the request's tokens draft() reads before its first guess.
  virtual std::size_t num_unread(RequestId /*request_id*/,
                                 std::span<const TokenId> /*tokens*/) const {
    return 0;
  }
  // Whether a guess takes a step of its own, so that it is to be wanted before it is made.
  virtual bool computes() const { return false; }
  // Of one that computes: whether it says how probable its guesses are.
  virtual bool estimates() const { return false; }
  // Whether its guesses form trees: more of them than may be computed are then a choice.
  virtual bool branches() const { return false; }
  // Of one that computes: the parents of the tree of which it may be wished for any part
  // (draft/token_tree.h); empty: chains.
  virtual std::span<const std::int32_t> tree() const { return {}; }
  // The request has ended, with this output.
  virtual void end(RequestId request_id, std::span<const TokenId> output) = 0;
};

// Memory that drafters of this folder take at most for the texts of requests, and for outputs of
// others: a request for which there is none left is decoded without drafts.
inline constexpr std::uint64_t kMaxDrafterBytes = std::uint64_t{64} << 20;
inline constexpr std::int64_t kMaxSharedTokens = std::int64_t{1} << 19;

// Of an engine of so many requests of at most so many tokens at once; a model's are not among them.
std::uint64_t drafter_bytes(const SpeculativeConfig& config, std::int64_t max_num_seqs,
                            std::int64_t max_model_len);
// One that looks up, by its method.
std::unique_ptr<Drafter> make_lookup_drafter(const SpeculativeConfig& config,
                                             std::int64_t max_num_seqs, std::int64_t max_model_len);

}  // namespace quire
