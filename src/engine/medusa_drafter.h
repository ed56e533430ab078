// Medusa (Cai et al. 2024): heads that each guess one token further ahead, all from the model's
// state at the last token that it has computed. A head's choices for its place are the same
// whatever was guessed before, so every tree of choices costs no more than its longest path.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "draft/drafter.h"
#include "exec/medusa_runner.h"

namespace quire {

class MedusaDrafter final : public Drafter {
 public:
  // Of `tree` it guesses what the heads reach. At most `max_num_seqs` requests at once.
  MedusaDrafter(std::unique_ptr<MedusaRunner> runner, std::span<const std::int32_t> tree,
                std::int64_t max_num_seqs);
  // What it keeps of so many requests of at most so many tokens.
  static std::uint64_t bytes(std::int64_t hidden_size, std::int64_t max_num_seqs,
                             std::int64_t max_model_len);

  bool begin(const DraftedRequest& request) override;
  void read(RequestId request_id, std::span<const TokenId> tokens) override;
  void computed(const SchedulerOutput& step, const ModelRunnerOutput& result) override;
  // Nobody else may compute on the device meanwhile. After an error, which is logged, nothing is
  // guessed any more.
  DraftWork draft(std::span<const DraftWish> wishes) override;
  bool computes() const override { return true; }
  std::span<const std::int32_t> tree() const override { return tree_; }
  void end(RequestId request_id, std::span<const TokenId> output) override;

 private:
  struct Followed {
    DraftedRequest request;
    std::shared_ptr<const SamplingParams> params;
    std::uint64_t seed = 0;
    std::vector<TokenId> tokens;  // of the request, and, while it is guessed, guesses
    std::vector<float> state;     // at `position`; empty: none yet
    std::size_t position = 0;
  };
  // A wish that can be met, and what is guessed for it.
  struct Guessing {
    const DraftWish* wish = nullptr;
    Followed* followed = nullptr;
    std::int64_t num_heads = 0;                 // that it needs
    std::vector<std::vector<TokenId>> choices;  // of each of these
  };

  bool lay_out(const DraftWish& wish);
  Status run_heads();
  Status run_head(std::int64_t head, std::size_t num_rows);

  std::unique_ptr<MedusaRunner> runner_;
  std::vector<std::int32_t> tree_;
  bool failed_ = false;
  std::unordered_map<RequestId, Followed> followed_;
  // Kept from call to call.
  std::vector<Guessing> guessing_;
  std::size_t num_guessing_ = 0;
  std::vector<float> states_;
  std::vector<InputBatch::SampleRow> rows_;
  ModelRunnerOutput result_;
};

}  // namespace quire
