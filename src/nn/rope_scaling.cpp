#include "nn/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace quire {
namespace {

constexpr double kTurn = 2.0 * std::numbers::pi;

// The base that reaches `length` positions as the plain one reaches the original ones.
double dynamic_theta(const RopeSpec& rope, std::int64_t max_positions) {
  const double length = std::max(static_cast<double>(max_positions), rope.original_max_positions);
  const double stretch = rope.factor * length / rope.original_max_positions - (rope.factor - 1.0);
  return rope.theta * std::pow(stretch, rope.rotary_dim / (rope.rotary_dim - 2.0));
}

double llama3_frequency(const RopeSpec& rope, double frequency) {
  const double turns = rope.original_max_positions * frequency / kTurn;
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  if (turns > rope.high_freq_factor) return frequency;
  const double smooth =
      (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - smooth) * frequency / rope.factor + smooth * frequency;
}

// Pairs that turn often within the original length stay as they are, those that turn seldom are
// stretched, and between the two lies a ramp over pairs.
void stretch_yarn(const RopeSpec& rope, std::vector<double>& frequencies) {
  // The pair that makes `turns` turns within the original length.
  const auto pair = [&](double turns) {
    return rope.rotary_dim * std::log(rope.original_max_positions / (turns * kTurn)) /
           (2.0 * std::log(rope.theta));
  };
  double begin = pair(rope.beta_fast);
  double end = pair(rope.beta_slow);
  if (rope.truncate) {
    begin = std::floor(begin);
    end = std::ceil(end);
  }
  begin = std::max(begin, 0.0);
  end = std::min(end, rope.rotary_dim - 1.0);
  if (begin == end) end += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - begin) / (end - begin), 0.0, 1.0);
    frequencies[i] *= stretched / rope.factor + (1.0 - stretched);
  }
}

void divide(std::vector<double>& frequencies, const std::vector<float>& factors) {
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] /= static_cast<double>(factors[i]);
  }
}

}  // namespace

std::vector<float> rotary_frequencies(const RopeSpec& rope, std::int64_t max_positions) {
  const bool dynamic = rope.scaling == RopeScaling::kDynamic;
  const double theta = dynamic ? dynamic_theta(rope, max_positions) : rope.theta;
  std::vector<double> frequencies;
  frequencies.reserve(static_cast<std::size_t>(rope.rotary_dim / 2));
  for (std::int32_t i = 0; i < rope.rotary_dim / 2; ++i) {
    frequencies.push_back(1.0 / std::pow(theta, 2.0 * i / rope.rotary_dim));
  }
  switch (rope.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kDynamic:
      break;
    case RopeScaling::kLinear:
      for (double& frequency : frequencies) frequency /= rope.factor;
      break;
    case RopeScaling::kLlama3:
      for (double& frequency : frequencies) frequency = llama3_frequency(rope, frequency);
      break;
    case RopeScaling::kYarn:
      stretch_yarn(rope, frequencies);
      break;
    case RopeScaling::kProportional:
      for (std::size_t i = 0; i < frequencies.size(); ++i) {
        const bool turns = i < static_cast<std::size_t>(rope.turning_pairs);
        frequencies[i] = turns ? frequencies[i] / rope.factor : 0.0;
      }
      break;
    case RopeScaling::kFactors:
      divide(frequencies, rope.factors);
      break;
    case RopeScaling::kLongRope: {
      const bool beyond = static_cast<double>(max_positions) > rope.original_max_positions;
      divide(frequencies, beyond ? rope.long_factors : rope.short_factors);
      break;
    }
  }
  std::vector<float> rounded;
  rounded.reserve(frequencies.size());
  for (const double frequency : frequencies) rounded.push_back(static_cast<float>(frequency));
  return rounded;
}

}  // namespace quire
