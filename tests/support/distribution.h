// What a model makes of a text, position by position, and how far two models' are apart.
#pragma once

#include <cstddef>
#include <vector>

#include "support/score.h"

namespace quire::test {

struct Distribution {
  std::vector<double> log_probabilities;  // of every token after each position: [positions][vocab]
  std::size_t vocab_size = 0;
  double perplexity = 0;  // of the text's own next tokens
};

Distribution distribution(Scorer& scorer, const std::vector<TokenId>& tokens);

// The mean Kullback-Leibler divergence of `other` from `exact`, nats a token.
double mean_divergence(const Distribution& exact, const Distribution& other);

}  // namespace quire::test
