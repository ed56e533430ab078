// Logits to tokens. A request's token depends on its own logits, its own parameters and its own
// random stream (seed, output position), never on its neighbours. What touches a whole vocabulary
// is the device's work; here is what a request has asked for, and where the results go.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "core/step.h"
#include "exec/input_batch.h"
#include "kernels/device.h"

namespace quire {

// What a step's rows are sampled from, in the device's memory.
struct SampledLogits {
  const float* values = nullptr;  // [rows][vocab_size]
  const RowBest* best = nullptr;  // [rows]: the largest of each
};

class Sampler {
 public:
  // At most `max_rows` rows at once. eos_token_ids are banned by min_tokens.
  Sampler(std::int64_t vocab_size, std::int64_t max_rows, std::vector<TokenId> eos_token_ids);
  static std::uint64_t bytes(std::int64_t vocab_size, std::int64_t max_rows);

  // logits: row i for rows[i]; left as they are. Adds one token each, in order, and its log
  // probability and the alternatives where they are asked for; they are of the model's own
  // distribution. Synchronizes `ops`. kBadModel if a row's logits are not finite. Of rows that
  // their request's own processor spoils result.failed has the reasons.
  Status sample(OpStream& ops, const SampledLogits& logits,
                std::span<const InputBatch::SampleRow> rows, ModelRunnerOutput& result);

  // The same rows' log probabilities of given tokens: row i is of rows[i].
  Status score(OpStream& ops, const SampledLogits& logits,
               std::span<const InputBatch::PromptRow> rows, ModelRunnerOutput& result);

 private:
  void collect_bans(std::span<const InputBatch::SampleRow> rows);
  // Row i, which its request's processor changes before all else.
  Status sample_processed(OpStream& ops, const SampledLogits& logits, std::size_t i,
                          const InputBatch::SampleRow& row, ModelRunnerOutput& result);

  std::int64_t vocab_size_;
  std::vector<TokenId> eos_token_ids_;
  // Of the rows of a call.
  std::vector<TokenId> bans_;
  std::vector<std::size_t> bans_end_;  // of each row, in bans_
  std::vector<SampleArgs> sample_args_;
  std::vector<ScoreArgs> score_args_;
  std::vector<RowSample> samples_;
  // Of one row at a time: who processes it may well be a language that runs one thread at a time.
  std::vector<float> processed_;  // [vocab_size]
  RowBest processed_best_;
};

}  // namespace quire
