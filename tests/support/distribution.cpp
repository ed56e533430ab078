#include "support/distribution.h"

#include <algorithm>
#include <cmath>

namespace quire::test {

Distribution distribution(Scorer& scorer, const std::vector<TokenId>& tokens) {
  const std::vector<float> logits = scorer.score(tokens, 0);
  Distribution result;
  result.vocab_size = static_cast<std::size_t>(scorer.vocab_size());
  result.log_probabilities.resize(logits.size());
  double surprise = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const float* row = &logits[i * result.vocab_size];
    double largest = row[0];
    for (std::size_t v = 1; v < result.vocab_size; ++v) {
      largest = std::max(largest, static_cast<double>(row[v]));
    }
    double sum = 0;
    for (std::size_t v = 0; v < result.vocab_size; ++v) sum += std::exp(row[v] - largest);
    const double normalizer = largest + std::log(sum);
    double* out = &result.log_probabilities[i * result.vocab_size];
    for (std::size_t v = 0; v < result.vocab_size; ++v) out[v] = row[v] - normalizer;
    if (i + 1 < tokens.size()) surprise -= out[static_cast<std::size_t>(tokens[i + 1])];
  }
  result.perplexity = std::exp(surprise / static_cast<double>(tokens.size() - 1));
  return result;
}

double mean_divergence(const Distribution& exact, const Distribution& other) {
  double sum = 0;
  for (std::size_t i = 0; i < exact.log_probabilities.size(); ++i) {
    const double log_probability = exact.log_probabilities[i];
    sum += std::exp(log_probability) * (log_probability - other.log_probabilities[i]);
  }
  return sum / static_cast<double>(exact.log_probabilities.size() / exact.vocab_size);
}

}  // namespace quire::test
