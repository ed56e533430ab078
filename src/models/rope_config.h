// Rotary positions as checkpoints describe them: `rope_theta` and `rope_scaling` of older
// config.json files, `rope_parameters` of newer ones.
#pragma once

#include <optional>

#include "base/json.h"
#include "models/spec.h"

namespace quire {

// The object with the scaling: `rope_scaling` has precedence over `rope_parameters`, as in the
// reference. An empty object where there is neither. Objects by kind of layer inside of it are
// refused unless `nested`.
Result<JsonReader> rope_object(const JsonReader& config, bool nested = false);

// One object of heads whose first `rotary_dim` dimensions turn: its `rope_theta` (else
// `default_theta`), and scaling by `rope_type`, `type` in older files. `config` is the whole
// configuration, which has the model's lengths. kUnimplemented by name for a type or key that is
// not supported.
Result<RopeSpec> read_rope_object(const JsonReader& rope, const JsonReader& config,
                                  std::int64_t rotary_dim, double default_theta);

// What YaRN multiplies cosines and sines with for a factor of the context's length, unless the
// configuration says (Peng et al. 2023, section 3.4).
double yarn_mscale(double factor, double mscale = 1.0);

// kUnimplemented where `partial_rotary_factor` says that only a part of each head turns.
Status refuse_partial_rotary(const JsonReader& rope);

// The first dimensions of heads of `head_dim` that turn: `partial_rotary_factor` of them, which
// stands beside the object of rotary positions or in it; `if_absent` where it is in neither.
// nullopt for families whose heads turn whole: another factor is refused.
Result<std::int64_t> read_rotary_dim(const JsonReader& config, std::int64_t head_dim,
                                     std::optional<double> if_absent);

// For families with one kind of rotary positions, in either spelling; `default_theta` where it has
// no `rope_theta`. Also widens
// spec.max_position_embeddings where the scaling reaches further than the key says (linear,
// dynamic: times the factor; yarn: the original length times the factor).
Status read_rope(const JsonReader& config, std::int64_t rotary_dim, DecoderSpec& spec,
                 double default_theta = 10000.0);

// Indices into DecoderSpec::ropes for families with two kinds.
inline constexpr std::int32_t kFullRope = 0;     // of layers that see all keys
inline constexpr std::int32_t kSlidingRope = 1;  // of layers with a sliding window

// Where a file does not say.
struct DefaultThetas {
  double full_theta = 0;
  double sliding_theta = 0;
};

// Both kinds: `rope_parameters` by kind of layer. In older files `rope_scaling` is of the layers
// that see all keys.
Status read_ropes_by_layer(const JsonReader& config, std::int64_t rotary_dim,
                           const DefaultThetas& defaults, DecoderSpec& spec);

}  // namespace quire
