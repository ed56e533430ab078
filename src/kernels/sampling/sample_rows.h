// Logits to tokens and log probabilities, on the CPU: rows in parallel, each by one worker.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "kernels/sampling/logit_editor.h"
#include "kernels/sampling/token_selection.h"
#include "kernels/sampling_args.h"

namespace quire {

// Of `num_threads` workers, for at most `max_rows` rows at once.
class SamplingScratch {
 public:
  SamplingScratch(std::int64_t vocab_size, std::int64_t max_rows, int num_threads);
  static std::uint64_t bytes(std::int64_t vocab_size, std::int64_t max_rows, int num_threads);

  struct OfWorker {
    explicit OfWorker(std::int64_t vocab_size)
        : logits(static_cast<std::size_t>(vocab_size)), editor(vocab_size), selection(vocab_size) {}
    std::vector<float> logits;
    LogitEditor editor;
    TokenSelection selection;
  };
  OfWorker& of(int worker) { return workers_[static_cast<std::size_t>(worker)]; }
  std::span<float> log_sum_exp() { return log_sum_exp_; }  // [max_rows]
  std::int64_t vocab_size() const { return vocab_size_; }

 private:
  std::int64_t vocab_size_;
  std::vector<float> log_sum_exp_;
  std::vector<OfWorker> workers_;
};

// logits: [rows][vocab_size], left as they are; best: the largest of each row.
void sample_rows(OpContext& ctx, SamplingScratch& scratch, const float* logits, const RowBest* best,
                 std::span<const SampleArgs> rows, std::span<RowSample> samples);
void score_rows(OpContext& ctx, SamplingScratch& scratch, const float* logits, const RowBest* best,
                std::span<const ScoreArgs> rows, std::span<RowSample> scores);

}  // namespace quire
