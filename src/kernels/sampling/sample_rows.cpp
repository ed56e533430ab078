#include "kernels/sampling/sample_rows.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/op_span.h"
#include "kernels/op_table.h"
#include "kernels/sampling/logprobs.h"

namespace quire {
namespace {

constexpr Stage kSampleStage = {StageKind::kSampling, "choose tokens"};
constexpr Stage kScoreStage = {StageKind::kSampling, "score prompt tokens"};

TokenId choose(const RowKernels& kernels, std::span<const float> logits, RowBest best,
               const SampleArgs& row, SamplingScratch::OfWorker& scratch) {
  if (!row.edits.empty()) {
    std::ranges::copy(logits, scratch.logits.begin());
    scratch.editor.apply(row.edits, scratch.logits);
    logits = scratch.logits;
    best = kernels.best_of_row(logits.data(), std::ssize(logits));
  }
  if (row.draw.greedy) return best.index;
  return scratch.selection.draw(kernels, row.draw, logits, best.value);
}

// Of sample.token.token_id, and of the most probable tokens.
void add_logprobs(std::span<const float> logits, float log_sum_exp, RowSample& sample,
                  std::span<TokenLogprob> top) {
  const TokenId id = sample.token.token_id;
  sample.token.logprob = logits[static_cast<std::size_t>(id)] - log_sum_exp;
  sample.token.rank = rank_of(logits, id);
  top_logprobs(logits, log_sum_exp, top);
}

// Calls fn(index, row of logits, worker) for each row, in parallel.
template <typename F>
void for_each_logits(OpContext& ctx, const float* logits, std::int64_t vocab_size,
                     std::size_t num_rows, const F& fn) {
  ctx.pool.parallel_for(
      static_cast<std::int64_t>(num_rows), 1,
      [&](std::int64_t begin, std::int64_t end, int worker) {
        for (std::int64_t i = begin; i < end; ++i) {
          fn(static_cast<std::size_t>(i),
             std::span(logits + i * vocab_size, static_cast<std::size_t>(vocab_size)), worker);
        }
      });
}

}  // namespace

SamplingScratch::SamplingScratch(std::int64_t vocab_size, std::int64_t max_rows, int num_threads)
    : vocab_size_(vocab_size), log_sum_exp_(static_cast<std::size_t>(max_rows)) {
  for (int i = 0; i < num_threads; ++i) workers_.emplace_back(vocab_size);
}

std::uint64_t SamplingScratch::bytes(std::int64_t vocab_size, std::int64_t max_rows,
                                     int num_threads) {
  const std::uint64_t worker = static_cast<std::uint64_t>(vocab_size) * sizeof(float) +
                               LogitEditor::bytes(vocab_size) + TokenSelection::bytes(vocab_size);
  return static_cast<std::uint64_t>(num_threads) * worker +
         static_cast<std::uint64_t>(max_rows) * sizeof(float);
}

void sample_rows(OpContext& ctx, SamplingScratch& scratch, const float* logits, const RowBest* best,
                 std::span<const SampleArgs> rows, std::span<RowSample> samples) {
  const OpSpan span(ctx, kSampleStage);
  const RowKernels& kernels = ctx.table.rows;
  for_each_logits(
      ctx, logits, scratch.vocab_size(), rows.size(),
      [&](std::size_t i, std::span<const float> values, int worker) {
        RowSample& sample = samples[i];
        sample = {.token = {}, .finite = std::isfinite(best[i].value)};
        if (!sample.finite) return;
        sample.token.token_id = choose(kernels, values, best[i], rows[i], scratch.of(worker));
        if (!rows[i].wants_logprob) return;
        const float sum = kernels.log_sum_exp(values.data(), std::ssize(values), best[i].value);
        add_logprobs(values, sum, sample, rows[i].top);
      });
}

void score_rows(OpContext& ctx, SamplingScratch& scratch, const float* logits, const RowBest* best,
                std::span<const ScoreArgs> rows, std::span<RowSample> scores) {
  const OpSpan span(ctx, kScoreStage);
  const std::span<float> sums = scratch.log_sum_exp();
  log_sum_exp(ctx, logits, best, std::ssize(rows), scratch.vocab_size(), sums.data());
  for_each_logits(ctx, logits, scratch.vocab_size(), rows.size(),
                  [&](std::size_t i, std::span<const float> values, int) {
                    RowSample& score = scores[i];
                    score = {.token = {.token_id = rows[i].token_id},
                             .finite = std::isfinite(sums[i])};
                    if (score.finite) add_logprobs(values, sums[i], score, rows[i].top);
                  });
}

}  // namespace quire
