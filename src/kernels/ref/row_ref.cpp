#include "kernels/ref/row_ref.h"

#include <algorithm>
#include <cmath>

#include "kernels/ref/kv_ref.h"
#include "kernels/sampling/token_weights.h"

namespace quire {
namespace {

struct RefLevel;

// The factor that brings a row to a root mean square of one.
double rms_scale(const float* x, float epsilon, std::int64_t cols) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < cols; ++i) sum += double{x[i]} * double{x[i]};
  return 1.0 / std::sqrt(sum / static_cast<double>(cols) + double{epsilon});
}

void rms_norm(const float* x, const float* weight, float epsilon, std::int64_t cols, float* out) {
  const double scale = rms_scale(x, epsilon, cols);
  for (std::int64_t i = 0; i < cols; ++i) {
    out[i] = static_cast<float>(double{x[i]} * scale * double{weight[i]});
  }
}

void rms_norm_and_add(const float* x, const float* weight, float epsilon, std::int64_t cols,
                      float* out) {
  const double scale = rms_scale(x, epsilon, cols);
  for (std::int64_t i = 0; i < cols; ++i) {
    out[i] = static_cast<float>(double{out[i]} + double{x[i]} * scale * double{weight[i]});
  }
}

void layer_norm(const float* x, const float* weight, const float* bias, float epsilon,
                std::int64_t cols, float* out) {
  double mean = 0.0;
  for (std::int64_t i = 0; i < cols; ++i) mean += double{x[i]};
  mean /= static_cast<double>(cols);
  double variance = 0.0;
  for (std::int64_t i = 0; i < cols; ++i) variance += (x[i] - mean) * (x[i] - mean);
  variance /= static_cast<double>(cols);
  const double scale = 1.0 / std::sqrt(variance + double{epsilon});
  for (std::int64_t i = 0; i < cols; ++i) {
    const double normed = (x[i] - mean) * scale * (weight == nullptr ? 1.0 : double{weight[i]});
    out[i] = static_cast<float>(bias == nullptr ? normed : normed + double{bias[i]});
  }
}

void silu_and_mul(const float* gate, const float* up, std::int64_t width, float* out) {
  for (std::int64_t i = 0; i < width; ++i) {
    out[i] = static_cast<float>(double{gate[i]} / (1.0 + std::exp(-double{gate[i]})) * up[i]);
  }
}

double gelu_tanh_of(double x) {
  constexpr double kTwiceSqrtTwoOverPi = 1.5957691216057307118;  // (1 + tanh u) / 2 = sigmoid(2 u)
  return x / (1.0 + std::exp(-kTwiceSqrtTwoOverPi * (x + 0.044715 * x * x * x)));
}

void gelu_tanh_and_mul(const float* gate, const float* up, std::int64_t width, float* out) {
  for (std::int64_t i = 0; i < width; ++i) {
    out[i] = static_cast<float>(gelu_tanh_of(gate[i]) * up[i]);
  }
}

void gelu_tanh(std::int64_t count, float* x) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(gelu_tanh_of(x[i]));
}

void gelu(std::int64_t count, float* x) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  for (std::int64_t i = 0; i < count; ++i) {
    x[i] = static_cast<float>(0.5 * x[i] * std::erfc(-kSqrtHalf * x[i]));
  }
}

void relu(std::int64_t count, float* x) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = x[i] < 0.0F ? 0.0F : x[i];
}

void relu2(std::int64_t count, float* x) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = x[i] < 0.0F ? 0.0F : x[i] * x[i];
}

void soft_cap(float cap, std::int64_t count, float* x) {
  for (std::int64_t i = 0; i < count; ++i) {
    x[i] = static_cast<float>(cap * std::tanh(double{x[i]} / double{cap}));
  }
}

void xielu(const Xielu& curve, std::int64_t count, float* x) {
  for (std::int64_t i = 0; i < count; ++i) {
    const double v = x[i];
    const double bend = v > 0.0
                            ? curve.alpha_p * v * v
                            : curve.alpha_n * (std::expm1(std::min(v, double{curve.epsilon})) - v);
    x[i] = static_cast<float>(bend + curve.beta * v);
  }
}

void clamped_and_mul(const ClampedGate& clamped, const float* gate, const float* up,
                     std::int64_t width, float* out) {
  const double limit = clamped.limit;
  for (std::int64_t i = 0; i < width; ++i) {
    const double g = std::min(double{gate[i]}, limit);
    const double u = std::clamp(double{up[i]}, -limit, limit);
    out[i] = static_cast<float>(g / (1.0 + std::exp(-clamped.alpha * g)) * (u + 1.0));
  }
}

void rotate(float* head, const float* cosines, const float* sines, std::int32_t pairs,
            RopeStyle style) {
  for (std::int32_t i = 0; i < pairs; ++i) {
    float& first = style == RopeStyle::kHalves ? head[i] : head[std::int64_t{2} * i];
    float& second = style == RopeStyle::kHalves ? head[pairs + i] : head[std::int64_t{2} * i + 1];
    const double x = first;
    const double y = second;
    first = static_cast<float>(x * cosines[i] - y * sines[i]);
    second = static_cast<float>(y * cosines[i] + x * sines[i]);
  }
}

void rope_and_cache(const RopeAndCacheArgs& args, const HeadTile& tile) {
  const KvLayout& layout = args.layout;
  const std::int64_t head_dim = layout.head_dim;
  const std::int32_t pairs = args.rotary_dim / 2;
  const std::int32_t first_key = args.num_heads;
  const std::int32_t first_value = first_key + layout.num_kv_heads;
  for (std::int64_t token = tile.token_begin; token < tile.token_end; ++token) {
    const float* const cosines =
        args.rope_table + std::int64_t{args.positions[token]} * args.rotary_dim;
    const auto block = static_cast<BlockId>(args.slot_mapping[token] / layout.block_size);
    const auto slot = static_cast<std::int32_t>(args.slot_mapping[token] % layout.block_size);
    for (std::int32_t head = tile.head_begin; head < tile.head_end; ++head) {
      float* const x = args.qkv + (token * args.all_heads() + head) * head_dim;
      if (head >= first_value) {
        store_value(x, layout, block, head - first_value, slot, args.kv);
        continue;
      }
      const float* const norm = head < first_key ? args.q_norm : args.k_norm;
      const auto norm_head = [&] { rms_norm(x, norm, args.norm_epsilon, head_dim, x); };
      if (norm != nullptr && !args.norms_after_rope) norm_head();
      rotate(x, cosines, cosines + pairs, pairs, args.style);
      if (norm != nullptr && args.norms_after_rope) norm_head();
      if (head >= first_key) store_key(x, layout, block, head - first_key, slot, args.kv);
    }
  }
}

RowBest best_of_row(const float* x, std::int64_t cols) {
  RowBest best = {.value = x[0], .index = 0};
  for (std::int64_t i = 0; i < cols; ++i) {
    if (std::isnan(x[i])) return {.value = x[i], .index = 0};
    if (x[i] > best.value) best = {.value = x[i], .index = static_cast<std::int32_t>(i)};
  }
  return best;
}

float log_sum_exp(const float* x, std::int64_t cols, float largest) {
  if (!std::isfinite(largest)) return largest;
  double sum = 0.0;
  for (std::int64_t i = 0; i < cols; ++i) sum += std::exp(double{x[i]} - double{largest});
  return static_cast<float>(largest + std::log(sum));
}

}  // namespace

RowKernels ref_row_kernels() {
  RowKernels kernels;
  kernels.rms_norm = rms_norm;
  kernels.rms_norm_and_add = rms_norm_and_add;
  kernels.layer_norm = layer_norm;
  kernels.silu_and_mul = silu_and_mul;
  kernels.gelu_tanh_and_mul = gelu_tanh_and_mul;
  kernels.gelu_tanh = gelu_tanh;
  kernels.gelu = gelu;
  kernels.relu = relu;
  kernels.relu2 = relu2;
  kernels.soft_cap = soft_cap;
  kernels.xielu = xielu;
  kernels.clamped_and_mul = clamped_and_mul;
  kernels.rope_and_cache = rope_and_cache;
  kernels.attention = ref_attention;
  kernels.best_of_row = best_of_row;
  kernels.log_sum_exp = log_sum_exp;
  kernels.token_weights = token_weights<RefLevel>;
  return kernels;
}

}  // namespace quire
