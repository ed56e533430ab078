#include "exec/sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/random.h"
#include "exec/logprobs.h"
#include "kernels/op_span.h"
#include "kernels/op_table.h"

namespace quire {
namespace {

constexpr Stage kSampleStage = {StageKind::kSampling, "choose tokens"};
constexpr Stage kScoreStage = {StageKind::kSampling, "score prompt tokens"};

Status logits_not_finite(RequestId request_id) {
  return Status::bad_model(fmt::format("request {}: the model's logits are not finite", request_id),
                           "the weights may be damaged; fetch the model again");
}

}  // namespace

Sampler::Sampler(std::int64_t vocab_size, std::int64_t max_rows, int num_threads,
                 std::vector<TokenId> eos_token_ids)
    : vocab_size_(vocab_size),
      eos_token_ids_(std::move(eos_token_ids)),
      log_sum_exp_(static_cast<std::size_t>(max_rows)),
      finite_(static_cast<std::size_t>(max_rows)) {
  for (int i = 0; i < num_threads; ++i) scratch_.emplace_back(vocab_size);
}

std::uint64_t Sampler::bytes(std::int64_t vocab_size, std::int64_t max_rows, int num_threads) {
  const std::uint64_t worker = static_cast<std::uint64_t>(vocab_size) * sizeof(float) +
                               LogitTransforms::bytes(vocab_size) +
                               TokenSelection::bytes(vocab_size);
  return static_cast<std::uint64_t>(num_threads) * worker +
         static_cast<std::uint64_t>(max_rows) * (sizeof(float) + 1);
}

Status Sampler::sample(OpContext& ctx, const SampledLogits& logits,
                       std::span<const InputBatch::SampleRow> rows, ModelRunnerOutput& result) {
  const OpSpan span(ctx, kSampleStage);
  const std::size_t first = result.sampled.size();
  auto next_top = static_cast<std::int32_t>(result.top_logprobs.size());
  for (const InputBatch::SampleRow& row : rows) {
    const std::int64_t asked = row.context.params->logprobs.value_or(0);
    const auto count = static_cast<std::int32_t>(std::min(asked, vocab_size_));
    result.sampled.push_back(
        {.request_id = row.request_id, .first_top_logprob = next_top, .num_top_logprobs = count});
    next_top += count;
  }
  result.top_logprobs.resize(static_cast<std::size_t>(next_top));

  const auto num_rows = static_cast<std::int64_t>(rows.size());
  ctx.pool.parallel_for(num_rows, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const std::span<const float> values = row(logits, i);
      const RowBest best = logits.best[i];
      finite_[i] = std::isfinite(best.value) ? 1 : 0;
      if (finite_[i] == 0) continue;
      SampledToken& token = result.sampled[first + i];
      token.token_id =
          choose(ctx.table.rows, values, best, rows[i], scratch_[static_cast<std::size_t>(worker)]);
      if (!rows[i].context.params->logprobs) continue;
      const float log_sum_exp = ctx.table.rows.log_sum_exp(values.data(), vocab_size_, best.value);
      token.logprob = values[static_cast<std::size_t>(token.token_id)] - log_sum_exp;
      token.rank = rank_of(values, token.token_id);
      top_logprobs(values, log_sum_exp,
                   std::span(result.top_logprobs)
                       .subspan(static_cast<std::size_t>(token.first_top_logprob),
                                static_cast<std::size_t>(token.num_top_logprobs)));
    }
  });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (finite_[i] == 0) return logits_not_finite(rows[i].request_id);
  }
  return {};
}

TokenId Sampler::choose(const RowKernels& kernels, std::span<const float> logits, RowBest best,
                        const InputBatch::SampleRow& row, Scratch& scratch) const {
  const SamplingParams& params = *row.context.params;
  if (LogitTransforms::needed(row.context)) {
    std::ranges::copy(logits, scratch.logits.begin());
    scratch.transforms.apply(row.context, eos_token_ids_, scratch.logits);
    logits = scratch.logits;
    best = kernels.best_of_row(logits.data(), vocab_size_);
  }
  if (params.greedy()) return best.index;
  const auto position = static_cast<std::uint64_t>(row.context.output().size());
  return scratch.selection.draw(params, logits, best.value, random_uniform(row.seed, position));
}

Status Sampler::score(OpContext& ctx, const SampledLogits& logits,
                      std::span<const InputBatch::PromptRow> rows, ModelRunnerOutput& result) {
  const OpSpan span(ctx, kScoreStage);
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  log_sum_exp(ctx, logits.values, logits.best, num_rows, vocab_size_, log_sum_exp_.data());
  const std::size_t first = result.prompt_tokens.size();
  auto next_top = static_cast<std::int32_t>(result.top_logprobs.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!std::isfinite(log_sum_exp_[i])) return logits_not_finite(rows[i].request_id);
    const auto count =
        static_cast<std::int32_t>(std::min<std::int64_t>(rows[i].num_top_logprobs, vocab_size_));
    result.prompt_tokens.push_back({.request_id = rows[i].request_id,
                                    .position = rows[i].position,
                                    .token = {.token_id = rows[i].token_id},
                                    .first_top_logprob = next_top,
                                    .num_top_logprobs = count});
    next_top += count;
  }
  result.top_logprobs.resize(static_cast<std::size_t>(next_top));
  ctx.pool.parallel_for(num_rows, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const std::span<const float> values = row(logits, i);
      PromptToken& prompt = result.prompt_tokens[first + i];
      const TokenId id = prompt.token.token_id;
      prompt.token.logprob = values[static_cast<std::size_t>(id)] - log_sum_exp_[i];
      prompt.token.rank = rank_of(values, id);
      top_logprobs(values, log_sum_exp_[i],
                   std::span(result.top_logprobs)
                       .subspan(static_cast<std::size_t>(prompt.first_top_logprob),
                                static_cast<std::size_t>(prompt.num_top_logprobs)));
    }
  });
  return {};
}

}  // namespace quire
