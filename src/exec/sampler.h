// Logits to tokens. A request's token depends on its own logits, its own parameters and its own
// random stream (seed, output position), never on its neighbours; so rows are sampled in parallel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "core/step.h"
#include "exec/input_batch.h"
#include "exec/logit_transforms.h"
#include "exec/token_selection.h"
#include "kernels/ops.h"
#include "kernels/row_kernels.h"

namespace quire {

// What a step's rows are sampled from.
struct SampledLogits {
  const float* values = nullptr;  // [rows][vocab_size]
  const RowBest* best = nullptr;  // [rows]: the largest of each
};

class Sampler {
 public:
  // At most `max_rows` rows at once, by `num_threads` workers. eos_token_ids are banned by
  // min_tokens.
  Sampler(std::int64_t vocab_size, std::int64_t max_rows, int num_threads,
          std::vector<TokenId> eos_token_ids);
  static std::uint64_t bytes(std::int64_t vocab_size, std::int64_t max_rows, int num_threads);

  // logits: row i for rows[i]; left as they are. Adds one token each, in order, and its log
  // probability and the alternatives where they are asked for; they are of the model's own
  // distribution. kBadModel if a row's logits are not finite.
  Status sample(OpContext& ctx, const SampledLogits& logits,
                std::span<const InputBatch::SampleRow> rows, ModelRunnerOutput& result);

  // The same rows' log probabilities of given tokens: row i is of rows[i].
  Status score(OpContext& ctx, const SampledLogits& logits,
               std::span<const InputBatch::PromptRow> rows, ModelRunnerOutput& result);

 private:
  // Of one worker.
  struct Scratch {
    explicit Scratch(std::int64_t vocab_size)
        : logits(static_cast<std::size_t>(vocab_size)),
          transforms(vocab_size),
          selection(vocab_size) {}
    std::vector<float> logits;
    LogitTransforms transforms;
    TokenSelection selection;
  };

  std::span<const float> row(const SampledLogits& logits, std::size_t index) const {
    const auto size = static_cast<std::size_t>(vocab_size_);
    return {logits.values + index * size, size};
  }
  // best: of `logits`, which has no NaN.
  TokenId choose(const RowKernels& kernels, std::span<const float> logits, RowBest best,
                 const InputBatch::SampleRow& row, Scratch& scratch) const;

  std::int64_t vocab_size_;
  std::vector<TokenId> eos_token_ids_;
  std::vector<float> log_sum_exp_;    // of rows to score
  std::vector<std::uint8_t> finite_;  // of rows to sample: 1 where the logits are
  std::vector<Scratch> scratch_;
};

}  // namespace quire
