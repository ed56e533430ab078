// Logits to tokens. A request's token depends on its own logits, its own parameters and its own
// random stream (seed, output position), never on its neighbours.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/input_batch.h"
#include "kernels/ops.h"

namespace quire {

class Sampler {
 public:
  Sampler(std::int64_t vocab_size, std::int64_t max_num_seqs);

  // logits: [rows.size()][vocab_size], row i for rows[i]. One token each, in order. The log
  // probability is of the model's own distribution. kBadModel if a row holds NaN only.
  Result<std::vector<SampledToken>> sample(OpContext& ctx, const float* logits,
                                           std::span<const InputBatch::SampleRow> rows);

 private:
  TokenId draw(const float* logits, const InputBatch::SampleRow& row);

  struct Candidate {
    float logit;
    TokenId token;
  };

  std::int64_t vocab_size_;
  std::vector<std::int32_t> best_;
  std::vector<float> log_sum_exp_;
  std::vector<Candidate> candidates_;
};

}  // namespace quire
