// What models that draft compute with: the runner, the cache of what they have read of each
// request, and the steps of a round of guesses: one that reads what is new and guesses, and one for
// each guess after it.
//
//   runner.begin_round();
//   runner.add(sequence, ...);  // each that is to be read
//   runner.guess(guessing);     // or runner.compute(), where nothing is to be guessed
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "core/kv_cache_manager.h"
#include "core/sampling_params.h"
#include "core/step.h"
#include "draft/drafter.h"
#include "draft/guess_prospect.h"
#include "exec/model_runner.h"
#include "models/decoder_model.h"

namespace quire {

class DraftRunner {
 public:
  // What the cache has of a request. Where another needed its place it is 0 again.
  struct Sequence {
    RequestId id = 0;
    std::int32_t num_computed = 0;  // tokens
    std::uint64_t last_round = 0;
    // Of the round: the choices for each place that was reached, of which the first was computed
    // on.
    std::vector<std::vector<TokenId>> choices = {};
    std::vector<float> probabilities = {};  // of the first choices
  };
  // One that the first step of a round samples from.
  struct Guessing {
    const DraftWish* wish = nullptr;
    const SamplingParams* params = nullptr;
    Sequence* sequence = nullptr;
    std::size_t num_places = 0;  // that the wish has, one behind the other: set by guess()
    GuessChain chain = {};       // of the guesses so far: set by guess()
  };

  // Owns model and runner, of which the runner was made for `config` and the model. `kv_groups`:
  // the model's. Guesses tokens below `vocab_size`, which is that of the model that is drafted for.
  DraftRunner(std::unique_ptr<Model> model, std::unique_ptr<ModelRunner> runner,
              const ModelRunnerConfig& config, std::vector<KvGroup> kv_groups,
              std::int64_t vocab_size);

  const DecoderSpec& spec() const { return model_->spec(); }
  std::int64_t max_model_len() const { return config_.max_model_len; }
  bool failed() const { return failed_; }
  // Whether it knows only some of the model's tokens.
  bool reduced() const { return !config_.token_map.empty(); }

  // The request's; it stays where it is until end().
  Sequence& begin(RequestId id);
  void end(RequestId id);
  // Gives back what was computed of tokens from there on.
  void truncate(Sequence& sequence, std::int32_t num_tokens);

  void begin_round();
  bool empty() const { return plan_.scheduled.empty(); }
  // Rows that a step has left; none where it has as many requests as it may.
  std::int64_t rows_left() const;
  // Adds a request to the first step, of whose tokens the next `num_tokens` are computed; each at
  // most once. `states`: of these rows, where the model reads states. False: there is no room.
  bool add(Sequence& sequence, const DraftedRequest& request, std::span<const TokenId> tokens,
           std::int32_t num_tokens, RowUse use, std::span<const float> states = {});
  // Computes the step. False: it failed, which is logged, and nothing can be computed any more.
  bool compute();
  // Computes the round: as many guesses as each wish says, or as there can be. Only first choices
  // are continued. `guessing`: those of the requests with RowUse::kTokens, in their order; none of
  // them at the end.
  void guess(std::vector<Guessing>& guessing);

 private:
  std::int32_t make_room(const Sequence& sequence, std::int32_t num_tokens);
  void schedule(Sequence& sequence, std::int32_t num_tokens, RowUse use,
                std::int32_t first_new_block, std::int32_t num_new_blocks);
  bool add_next(const Guessing& guessing);
  bool goes_on(const Guessing& guessing, std::size_t num_steps) const;
  bool pays(std::span<const Guessing> guessing, std::size_t num_steps) const;
  void take_guesses(std::vector<Guessing>& guessing, std::size_t num_steps);
  void take_guess(Guessing& guessing, const SampledToken& sampled);
  void take_states(std::size_t num_guessing);

  std::unique_ptr<Model> model_;
  std::unique_ptr<ModelRunner> runner_;
  ModelRunnerConfig config_;
  std::int64_t vocab_size_;
  KvCacheManager kv_;
  std::unordered_map<RequestId, Sequence> sequences_;
  std::vector<RequestId> known_;  // to the runner
  std::uint64_t round_ = 0;
  bool failed_ = false;
  GuessRound guesses_;
  // Kept from step to step.
  SchedulerOutput plan_;
  ModelRunnerOutput result_;
  std::vector<float> states_;       // of the step's rows
  std::vector<float> last_states_;  // that it gave, of each request's last row
};

}  // namespace quire
