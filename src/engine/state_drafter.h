// Layers that guess from the states of the model that they draft for (models/draft_layers.h): MTP,
// EAGLE and EAGLE-3. A state and the token after it, which was drawn from it, are read together;
// what comes out is the guess at the token after that, and a state to go on with in place of the
// model's.
//
// What it reads of a request are the states that the model has computed since the request began:
// where the beginning came from a prefix cache, or another output of the request computed it, the
// layers do not see the beginning. Guesses get worse by that, nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "draft/drafter.h"
#include "engine/draft_runner.h"

namespace quire {

class StateDrafter final : public Drafter {
 public:
  // States of a request that wait to be read until something is guessed after them; more are read
  // at once.
  static constexpr std::size_t kMaxPending = 2 * SpeculativeConfig::kMaxTokens;

  // `tree`: Drafter::tree(), of which only first choices are continued.
  StateDrafter(std::unique_ptr<DraftRunner> runner, std::span<const std::int32_t> tree);
  // What it keeps of so many requests of at most so many tokens, and of steps of so many rows.
  static std::uint64_t bytes(std::int64_t state_size, std::int64_t max_num_seqs,
                             std::int64_t max_model_len, std::int64_t max_num_batched_tokens);

  bool begin(const DraftedRequest& request) override;
  void read(RequestId request_id, std::span<const TokenId> tokens) override;
  // These two compute: nobody else may on the device meanwhile.
  void computed(const SchedulerOutput& step, const ModelRunnerOutput& result) override;
  DraftWork draft(std::span<const DraftWish> wishes) override;
  bool computes() const override { return true; }
  bool estimates() const override { return tree_.empty(); }
  std::span<const std::int32_t> tree() const override { return tree_; }
  void end(RequestId request_id, std::span<const TokenId> output) override;

 private:
  struct Followed {
    DraftedRequest request;
    DraftRunner::Sequence* sequence = nullptr;
    std::vector<TokenId> tokens;  // of the request
    std::size_t first = 0;        // the position of the first state that was read
    std::size_t num_read = 0;     // states
    std::vector<float> pending;   // those behind them
    std::size_t num_pending = 0;
    std::size_t end() const { return first + num_read + num_pending; }
  };

  void take(Followed& followed, std::size_t position, std::span<const float> states);
  void start_at(Followed& followed, std::size_t position);
  // Reads what is pending and `fresh`, but for the last state.
  void feed(Followed& followed, std::span<const float> fresh);
  bool add(Followed& followed, std::size_t count, RowUse use, std::span<const float> states);
  void flush();
  bool lay_out(const DraftWish& wish);

  std::unique_ptr<DraftRunner> runner_;
  std::vector<std::int32_t> tree_;
  std::size_t state_size_;
  std::unordered_map<RequestId, Followed> followed_;
  // Kept from call to call.
  std::vector<float> fed_;
  std::vector<DraftRunner::Guessing> guessing_;
};

}  // namespace quire
