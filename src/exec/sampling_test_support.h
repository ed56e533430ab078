// For tests of sampling: a sampler with what it runs on, the distribution that parameters ask for
// in plain double precision, and the distribution that the sampler really draws from.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "exec/sampler.h"
#include "kernels/cpu_device.h"
#include "kernels/sampling/logit_editor.h"
#include "kernels/sampling/token_selection.h"

namespace quire {

inline std::vector<float> random_logits(std::size_t count, double scale, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> logits(count);
  for (float& logit : logits) {
    // A sum of uniforms, not std::normal_distribution: the same numbers with every library.
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(generator()) * 0x1.0p-32;
    logit = static_cast<float>(sum * scale);
  }
  return logits;
}

// What a request has asked for and seen.
struct SamplingCase {
  SamplingParams params;
  std::vector<TokenId> prompt;
  std::vector<TokenId> output;
  std::vector<TokenId> eos_token_ids;

  std::vector<TokenId> token_ids() const {
    std::vector<TokenId> all = prompt;
    all.insert(all.end(), output.begin(), output.end());
    return all;
  }
};

namespace reference {

constexpr double kBanned = -std::numeric_limits<double>::infinity();

// The logits after bans, biases and penalties, each rule written as its definition reads.
inline std::vector<double> transform(const SamplingCase& c, std::span<const float> logits) {
  const SamplingParams& p = c.params;
  std::vector<double> x(logits.begin(), logits.end());
  const auto among = [](const std::vector<TokenId>& ids, std::size_t token) {
    return std::count(ids.begin(), ids.end(), static_cast<TokenId>(token));
  };
  for (std::size_t t = 0; t < x.size(); ++t) {
    if (!p.allowed_token_ids.empty() && among(p.allowed_token_ids, t) == 0) x[t] = kBanned;
    for (const std::vector<TokenId>& word : p.bad_words_token_ids) {
      std::vector<TokenId> tail = c.output;
      tail.push_back(static_cast<TokenId>(t));
      if (tail.size() < word.size()) continue;
      tail.erase(tail.begin(), tail.end() - static_cast<std::ptrdiff_t>(word.size()));
      if (tail == word) x[t] = kBanned;
    }
    for (const LogitBias& each : p.logit_bias) {
      if (each.token_id == static_cast<TokenId>(t)) x[t] += static_cast<double>(each.bias);
    }
    const bool ends =
        among(p.stop_token_ids, t) > 0 || (!p.ignore_eos && among(c.eos_token_ids, t) > 0);
    if (ends && std::ssize(c.output) < p.min_tokens) x[t] = kBanned;
    const auto in_output = static_cast<double>(among(c.output, t));
    if (in_output > 0 || among(c.prompt, t) > 0) {
      x[t] = x[t] < 0 ? x[t] * p.repetition_penalty : x[t] / p.repetition_penalty;
    }
    x[t] -= p.frequency_penalty * in_output + (in_output > 0 ? p.presence_penalty : 0.0);
  }
  return x;
}

inline void normalize(std::vector<double>& probabilities) {
  const double total = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (double& each : probabilities) each /= total;
}

// The probability of each token; sorts whole vocabularies.
inline std::vector<double> distribution(const SamplingCase& c, std::span<const float> logits) {
  const SamplingParams& p = c.params;
  std::vector<double> x = transform(c, logits);
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return x[a] > x[b]; });
  const double best = x[order.front()];
  std::vector<double> probabilities(x.size());
  for (std::size_t t = 0; t < x.size(); ++t) {
    probabilities[t] = std::exp((x[t] - best) / p.temperature);
    if (probabilities[t] < p.min_p) probabilities[t] = 0;
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (p.top_k > 0 && static_cast<std::int64_t>(i) >= p.top_k) probabilities[order[i]] = 0;
  }
  normalize(probabilities);
  double before = 0;
  for (const std::size_t token : order) {
    const double own = probabilities[token];
    if (before >= p.top_p) probabilities[token] = 0;
    before += own;
  }
  normalize(probabilities);
  return probabilities;
}

}  // namespace reference

// What becomes of the logits where a case samples next.
inline std::vector<float> edited(const SampleContext& context,
                                 std::span<const TokenId> eos_token_ids,
                                 std::vector<float> logits) {
  std::vector<TokenId> bans;
  append_bans(context, eos_token_ids, bans);
  LogitEditor(std::ssize(logits)).apply(edits_of(context, bans), logits);
  return logits;
}
inline std::vector<float> edited(const SamplingCase& c, std::vector<float> logits) {
  const std::vector<TokenId> token_ids = c.token_ids();
  return edited({&c.params, token_ids, static_cast<std::int32_t>(c.prompt.size())}, c.eos_token_ids,
                std::move(logits));
}

inline const RowKernels& sampling_kernels() { return op_table(available_levels().back()).rows; }

// The distribution that the edits and the selection make, read off exactly: a token is drawn
// for an interval of the uniform number, tokens in order of id, so bisection finds each border.
inline std::vector<double> measured_distribution(const SamplingCase& c,
                                                 std::span<const float> logits) {
  const auto vocab_size = static_cast<std::int64_t>(logits.size());
  const std::vector<float> values = edited(c, {logits.begin(), logits.end()});
  const float max = *std::max_element(values.begin(), values.end());
  TokenSelection selection(vocab_size);
  std::vector<double> probabilities(logits.size());
  double begin = 0;
  while (begin < 1) {
    const auto draw = [&](double uniform) {
      return selection.draw(sampling_kernels(), draw_of(c.params, uniform), values, max);
    };
    const TokenId token = draw(begin);
    double low = begin;
    double high = 1;
    while (high - low > 1e-12) {
      const double middle = (low + high) / 2;
      (draw(middle) == token ? low : high) = middle;
    }
    probabilities[static_cast<std::size_t>(token)] += high - begin;
    begin = high;
  }
  return probabilities;
}

// A sampler on its own device.
class SamplerUnderTest {
 public:
  SamplerUnderTest(std::int64_t vocab_size, std::int64_t max_rows, int threads,
                   std::vector<TokenId> eos_token_ids = {})
      : vocab_size_(vocab_size),
        device_(threads, op_table(available_levels().back())),
        ops_(device_.make_stream({.vocab_size = vocab_size, .max_sampled_rows = max_rows}).value()),
        sampler_(vocab_size, max_rows, std::move(eos_token_ids)) {}

  // One row for each of `rows`.
  Status sample(std::span<const float> logits, std::span<const InputBatch::SampleRow> rows,
                ModelRunnerOutput& output) {
    const std::vector<RowBest> best = best_of_rows(logits, rows.size());
    return sampler_.sample(*ops_, {logits.data(), best.data()}, rows, output);
  }
  Status score(std::span<const float> logits, std::span<const InputBatch::PromptRow> rows,
               ModelRunnerOutput& output) {
    const std::vector<RowBest> best = best_of_rows(logits, rows.size());
    return sampler_.score(*ops_, {logits.data(), best.data()}, rows, output);
  }

 private:
  std::vector<RowBest> best_of_rows(std::span<const float> logits, std::size_t count) const {
    std::vector<RowBest> best(count);
    for (std::size_t i = 0; i < count; ++i) {
      const float* const row = logits.data() + i * static_cast<std::size_t>(vocab_size_);
      best[i] = op_table(available_levels().back()).rows.best_of_row(row, vocab_size_);
    }
    return best;
  }

  std::int64_t vocab_size_;
  CpuDevice device_;
  std::unique_ptr<OpStream> ops_;
  Sampler sampler_;
};

}  // namespace quire
