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

#include "base/status.h"
#include "core/kv_cache_manager.h"
#include "core/sampling_params.h"
#include "core/step.h"
#include "draft/drafter.h"
#include "exec/model_runner.h"
#include "models/decoder_model.h"

namespace quire {

class DraftModel final : public Drafter {
 public:
  // Owns model and runner, of which the runner was made for `config` and the model. `kv_groups`:
  // the model's. Guesses tokens below `vocab_size`, which is the large one's.
  DraftModel(std::unique_ptr<Model> model, std::unique_ptr<ModelRunner> runner,
             const ModelRunnerConfig& config, std::vector<KvGroup> kv_groups,
             std::int64_t vocab_size);

  bool begin(const DraftedRequest& request) override;
  void read(RequestId /*request_id*/, std::span<const TokenId> /*tokens*/) override {}
  // Nobody else may compute on the device meanwhile. A step reads max_num_batched_tokens of prompts
  // at most: of a longer one nothing is guessed until it is read. After a step that fails, which is
  // logged, nothing is guessed any more.
  DraftWork draft(std::span<const DraftWish> wishes) override;
  bool computes() const override { return true; }
  void end(RequestId request_id, std::span<const TokenId> output) override;

 private:
  struct Followed {
    DraftedRequest request;
    std::vector<TokenId> computed;  // tokens with keys and values
    std::size_t num_known = 0;      // of these, that the request had at the last call
    std::uint64_t last_round = 0;
  };
  // A request of the step that is laid out.
  struct Active {
    const DraftWish* wish = nullptr;
    Followed* followed = nullptr;
  };

  // Gives back what was computed of tokens that are not `tokens`, of which the last is always
  // computed again.
  void rewind(Followed& followed, std::span<const TokenId> tokens);
  // Room for so many more tokens of a request: entries that its table has more, or -1.
  std::int32_t make_room(Followed& followed, std::int32_t num_tokens);
  // Adds a request, as far as the step has room for it, to its first step.
  void lay_out(const DraftWish& wish);
  // Tells the runner of a request, in place of what it knew, and of what to compute. False: there
  // is no room for so many tokens.
  bool tell(const DraftWish& wish, Followed& followed, std::int32_t num_tokens, RowUse use);
  void schedule(const Followed& followed, std::int32_t num_tokens, RowUse use,
                std::int32_t first_new_block, std::int32_t num_new_blocks);
  // Adds its last guess to the next.
  bool lay_out_next(const Active& active);
  // Computes the step; false: it failed.
  bool compute();
  void take_guesses();
  bool goes_on(const Active& active) const;

  std::unique_ptr<Model> model_;
  std::unique_ptr<ModelRunner> runner_;
  ModelRunnerConfig config_;
  std::int64_t vocab_size_;
  KvCacheManager kv_;
  std::unordered_map<RequestId, Followed> followed_;
  std::vector<RequestId> known_;  // to the runner
  std::uint64_t round_ = 0;
  bool read_prompts_ = false;
  bool failed_ = false;
  // Kept from step to step.
  SchedulerOutput plan_;
  ModelRunnerOutput result_;
  std::vector<Active> active_;
};

}  // namespace quire
