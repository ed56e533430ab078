#include "exec/sampler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/random.h"

namespace quire {

Sampler::Sampler(std::int64_t vocab_size, std::int64_t max_num_seqs) : vocab_size_(vocab_size) {
  best_.resize(static_cast<std::size_t>(max_num_seqs));
  log_sum_exp_.resize(static_cast<std::size_t>(max_num_seqs));
  candidates_.reserve(static_cast<std::size_t>(vocab_size));
}

Result<std::vector<SampledToken>> Sampler::sample(OpContext& ctx, const float* logits,
                                                  std::span<const InputBatch::SampleRow> rows) {
  argmax_and_log_sum_exp(ctx, logits, static_cast<std::int64_t>(rows.size()), vocab_size_,
                         best_.data(), log_sum_exp_.data());
  std::vector<SampledToken> sampled;
  sampled.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float* row = logits + static_cast<std::int64_t>(i) * vocab_size_;
    if (!std::isfinite(row[best_[i]])) {
      return Status::bad_model(
          fmt::format("request {}: the model's logits are not finite", rows[i].request_id),
          "the weights may be damaged; fetch the model again");
    }
    const TokenId token = rows[i].params->greedy() ? best_[i] : draw(row, rows[i]);
    sampled.push_back({.request_id = rows[i].request_id,
                       .token_id = token,
                       .logprob = row[token] - log_sum_exp_[i]});
  }
  return sampled;
}

// Orders by logit, then by token id, so that ties are cut the same way everywhere.
TokenId Sampler::draw(const float* logits, const InputBatch::SampleRow& row) {
  const SamplingParams& params = *row.params;
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  candidates_.clear();
  for (std::int64_t i = 0; i < vocab_size_; ++i) {
    if (!std::isnan(logits[i])) candidates_.push_back({logits[i], static_cast<TokenId>(i)});
  }
  if (params.top_k > 0 && params.top_k < static_cast<std::int64_t>(candidates_.size())) {
    std::nth_element(candidates_.begin(), candidates_.begin() + params.top_k - 1, candidates_.end(),
                     before);
    candidates_.resize(static_cast<std::size_t>(params.top_k));
  }
  const float max_logit =
      std::max_element(candidates_.begin(), candidates_.end(), [](const auto& a, const auto& b) {
        return a.logit < b.logit;
      })->logit;
  const auto weight = [&](const Candidate& c) {
    return std::exp((static_cast<double>(c.logit) - max_logit) / params.temperature);
  };
  // The order of summation must not depend on how the selection above moved candidates around.
  const auto by_token = [](const Candidate& a, const Candidate& b) { return a.token < b.token; };
  if (params.top_k > 0) std::sort(candidates_.begin(), candidates_.end(), by_token);
  double total = 0;
  for (const Candidate& candidate : candidates_) total += weight(candidate);

  if (params.top_p < 1.0) {
    // Candidates in order of probability until their sum reaches top_p; a heap gives the few that
    // are needed without sorting the vocabulary.
    const auto heap_order = [&](const Candidate& a, const Candidate& b) { return before(b, a); };
    std::make_heap(candidates_.begin(), candidates_.end(), heap_order);
    const double target = params.top_p * total;
    double kept = 0;
    auto end = candidates_.end();
    while (end != candidates_.begin() && kept < target) {
      std::pop_heap(candidates_.begin(), end, heap_order);
      --end;
      kept += weight(*end);
    }
    candidates_.erase(candidates_.begin(), end);
    std::sort(candidates_.begin(), candidates_.end(), by_token);
    total = 0;
    for (const Candidate& candidate : candidates_) total += weight(candidate);
  }

  const double target =
      random_uniform(row.seed, static_cast<std::uint64_t>(row.output_position)) * total;
  double sum = 0;
  for (const Candidate& candidate : candidates_) {
    sum += weight(candidate);
    if (target < sum) return candidate.token;
  }
  return candidates_.back().token;
}

}  // namespace quire
