// How fast each pair of a head's dimensions turns with position, and the published ways to stretch
// that to sequences longer than those of pre-training.
#pragma once

#include <cstdint>
#include <vector>

namespace quire {

enum class RopeScaling : std::uint8_t {
  kNone,
  kLinear,   // positions divided by `factor` (Chen et al. 2023, position interpolation)
  kDynamic,  // the base grows with the sequence (NTK-aware scaling); here with max_positions, once
  kLlama3,   // slow pairs divided by `factor`, fast ones left alone, smooth between (Llama 3.1)
  kYarn,     // the same idea on a ramp over dimensions, and sharper scores (Peng et al. 2023)
  kFactors,  // each pair divided by its own factor, as a file lists them
  kProportional,  // the first pairs alone turn, as fast as those of heads that turn whole (Gemma 4)
  // The same, with other factors where a model may have more tokens than in pre-training (Ding et
  // al. 2024, LongRoPE): with max_positions, once.
  kLongRope,
};

// One kind of rotary positions, as a checkpoint describes it.
struct RopeSpec {
  std::int32_t rotary_dim = 0;  // the first dimensions of a head, which turn; even
  double theta = 10000.0;       // pair i of d dimensions turns by theta^(-2i / d) a position
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  double original_max_positions = 0.0;    // of pre-training: dynamic, llama3, yarn, longrope
  double low_freq_factor = 1.0;           // llama3
  double high_freq_factor = 4.0;          // llama3
  double beta_fast = 32.0;                // yarn: turns within the original length above which a
  double beta_slow = 1.0;                 // pair stays as it is, and below which it is stretched
  bool truncate = true;                   // yarn: the ramp begins and ends at whole pairs
  double attention_factor = 1.0;          // of cosines and sines
  std::vector<float> factors;             // kFactors: [rotary_dim / 2]
  std::int32_t turning_pairs = 0;         // kProportional
  std::vector<float> short_factors = {};  // longrope, within the original length: as `factors`
  std::vector<float> long_factors = {};   // longrope, beyond it

  bool operator==(const RopeSpec&) const = default;
};

// Radians a position of each pair: [rotary_dim / 2], rounded to float32 as the references do.
// `max_positions` matters to dynamic scaling and longrope alone.
std::vector<float> rotary_frequencies(const RopeSpec& rope, std::int64_t max_positions);

}  // namespace quire
