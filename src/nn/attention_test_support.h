// What tests of attention share: rotation and an attention block as numbers, in plain double
// precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "nn/nn_test_support.h"

namespace quire {

// Turns each pair of a head's first rotary_dim dimensions by its angle at a position.
struct TestRotary {
  std::int32_t rotary_dim = 0;
  double theta = 10000.0;
  RopeStyle style = RopeStyle::kHalves;

  RotaryTable table(std::int64_t max_positions) const {
    RopeSpec spec;
    spec.rotary_dim = rotary_dim;
    spec.theta = theta;
    return {rotary_dim, style, DeviceFloats::of_host(rotary_values(max_positions, spec))};
  }
  void turn(Numbers& head, std::size_t position) const {
    const auto pairs = static_cast<std::size_t>(rotary_dim / 2);
    for (std::size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(position) *
                           std::pow(theta, -2.0 * static_cast<double>(i) / rotary_dim);
      double& a = head[style == RopeStyle::kHalves ? i : 2 * i];
      double& b = head[style == RopeStyle::kHalves ? i + pairs : 2 * i + 1];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + a * std::sin(angle);
      a = turned;
    }
  }
};

// An attention block as numbers: what the checkpoint has, and what comes out of that.
struct TestAttention {
  AttentionShape shape;
  TestRotary rotary;
  TestWeights q, k, v, output;
  Floats qkv_bias, output_bias;
  Floats alibi_slopes, sinks;  // [num_heads] or empty
  TestNorm q_norm, k_norm;     // of each head, or of all

  // Weights of everything that a block must have; the optional vectors stay empty.
  static TestAttention random(const AttentionShape& shape, const TestRotary& rotary,
                              std::int64_t hidden_size, unsigned seed) {
    TestAttention attention;
    attention.shape = shape;
    attention.rotary = rotary;
    const std::int64_t kv_width = std::int64_t{shape.num_kv_heads} * shape.head_dim;
    attention.q = TestWeights::random(shape.out_width(), hidden_size, seed);
    attention.k = TestWeights::random(kv_width, hidden_size, seed + 1);
    attention.v = TestWeights::random(kv_width, hidden_size, seed + 2);
    attention.output = TestWeights::random(hidden_size, shape.out_width(), seed + 3);
    return attention;
  }
  // A block with queries of its own and the keys and values of this one.
  TestAttention reader(std::int64_t hidden_size, unsigned seed) const {
    TestAttention other = random(shape, rotary, hidden_size, seed);
    other.shape.own_keys = false;
    other.k = k;
    other.v = v;
    other.k_norm = k_norm;
    return other;
  }
  void add_biases(unsigned seed) {
    qkv_bias = random_floats(static_cast<std::size_t>(shape.qkv_width()), 1.0F, seed);
    output_bias = random_floats(static_cast<std::size_t>(output.outputs), 1.0F, seed + 1);
  }
  void add_norms(unsigned seed) {
    const auto head_dim = static_cast<std::size_t>(shape.head_dim);
    const auto num_heads = static_cast<std::size_t>(shape.num_heads);
    const auto num_kv_heads = static_cast<std::size_t>(shape.num_kv_heads);
    q_norm = TestNorm::rms(shape.whole_norms ? num_heads * head_dim : head_dim, seed);
    k_norm = TestNorm::rms(shape.whole_norms ? num_kv_heads * head_dim : head_dim, seed + 1);
  }

  // `apart`: queries, keys and values as three matrices instead of one.
  AttentionBlock block(Device& device, bool apart) const {
    AttentionWeights weights;
    if (!shape.own_keys) {
      weights.qkv.push_back(pack(device, {&q}));
    } else if (apart) {
      for (const TestWeights* part : {&q, &k, &v}) weights.qkv.push_back(pack(device, {part}));
    } else {
      weights.qkv.push_back(pack(device, {&q, &k, &v}));
    }
    weights.qkv_bias = DeviceFloats::of_host(qkv_bias);
    weights.q_norm = DeviceFloats::of_host(q_norm.weight);
    weights.k_norm = DeviceFloats::of_host(k_norm.weight);
    weights.alibi_slopes = DeviceFloats::of_host(alibi_slopes);
    weights.sinks = DeviceFloats::of_host(sinks);
    weights.v_norm = DeviceFloats::of_host(value_norm().weight);
    weights.output = pack(device, {&output});
    weights.output_bias = DeviceFloats::of_host(output_bias);
    return {shape, TestNorm::kEpsilon, std::move(weights)};
  }

  TestNorm value_norm() const {
    if (!shape.value_norm) return {};
    return {NormKind::kRms, Floats(static_cast<std::size_t>(shape.head_dim), 1.0F), {}};
  }

  // inputs: [position][hidden_size] of one sequence, and so is what comes out. `kv_inputs`: what
  // keys and values are made of.
  std::vector<Numbers> of(const std::vector<Numbers>& inputs) const { return of(inputs, inputs); }
  std::vector<Numbers> of(const std::vector<Numbers>& inputs,
                          const std::vector<Numbers>& kv_inputs) const {
    const auto heads = [&](const TestWeights& weights, std::int64_t first, const Numbers& x,
                           const TestNorm& norm) {
      Floats bias;
      if (!qkv_bias.empty()) {
        bias.assign(qkv_bias.begin() + first, qkv_bias.begin() + first + weights.outputs);
      }
      Numbers all = product(weights, x, bias);
      if (shape.whole_norms) all = norm.of(all);
      if (shape.qkv_limit > 0.0F) {
        const auto limit = static_cast<double>(shape.qkv_limit);
        for (double& value : all) value = std::clamp(value, -limit, limit);
      }
      std::vector<Numbers> each;
      for (auto at = all.begin(); at < all.end(); at += shape.head_dim) {
        each.emplace_back(at, at + shape.head_dim);
      }
      if (!shape.whole_norms) each = norm.of(each);
      return each;
    };
    const std::size_t per_kv_head = static_cast<std::size_t>(shape.num_heads / shape.num_kv_heads);
    std::vector<std::vector<Numbers>> keys;    // [position][head]
    std::vector<std::vector<Numbers>> values;  // the same
    std::vector<Numbers> outputs;
    for (std::size_t position = 0; position < inputs.size(); ++position) {
      const Numbers& x = inputs[position];
      std::vector<Numbers> queries = heads(q, 0, x, q_norm);
      keys.push_back(heads(k, q.outputs, kv_inputs[position], k_norm));
      values.push_back(value_norm().of(heads(v, q.outputs + k.outputs, kv_inputs[position], {})));
      for (Numbers& head : queries) rotary.turn(head, position);
      for (Numbers& head : keys.back()) rotary.turn(head, position);
      const auto window = static_cast<std::size_t>(shape.window);
      const auto chunk = static_cast<std::size_t>(shape.chunk);
      std::size_t first = window > 0 && position >= window ? position - window + 1 : 0;
      if (chunk > 0) first = position / chunk * chunk;
      Numbers attended;
      for (std::size_t h = 0; h < queries.size(); ++h) {
        Numbers shares;
        for (std::size_t at = first; at <= position; ++at) {
          const Numbers& key = keys[at][h / per_kv_head];
          double score = static_cast<double>(shape.scale) *
                         std::inner_product(key.begin(), key.end(), queries[h].begin(), 0.0);
          const auto cap = static_cast<double>(shape.soft_cap);
          if (cap > 0.0) score = cap * std::tanh(score / cap);
          if (!alibi_slopes.empty()) {
            score -= static_cast<double>(alibi_slopes[h]) * static_cast<double>(position - at);
          }
          shares.push_back(std::exp(score));
        }
        const double sink = sinks.empty() ? 0.0 : std::exp(static_cast<double>(sinks[h]));
        const double sum = std::accumulate(shares.begin(), shares.end(), sink);
        for (std::size_t d = 0; d < static_cast<std::size_t>(shape.head_dim); ++d) {
          double value = 0.0;
          for (std::size_t at = first; at <= position; ++at) {
            value += shares[at - first] / sum * values[at][h / per_kv_head][d];
          }
          attended.push_back(value);
        }
      }
      outputs.push_back(product(output, attended, output_bias));
    }
    return outputs;
  }
};

}  // namespace quire
