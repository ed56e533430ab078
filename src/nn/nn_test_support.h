// What tests of building blocks share: random weights, the blocks' formulas in plain double
// precision, and sequences that go through a block in steps, over paged memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu_device.h"
#include "kernels/level_test_support.h"
#include "kernels/row_ops_test_support.h"
#include "kernels/sizing.h"
#include "nn/attention_block.h"
#include "nn/decoder_layer.h"
#include "nn/forward_context.h"
#include "nn/norm.h"
#include "tensor/buffer.h"

namespace quire {

using Floats = std::vector<float>;
using Numbers = std::vector<double>;

inline constexpr std::int64_t kHiddenSize = 40;

// A matrix of a checkpoint: [outputs][inputs].
struct TestWeights {
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  Floats values;

  static TestWeights random(std::int64_t outputs, std::int64_t inputs, unsigned seed) {
    const float spread = 1.0F / std::sqrt(static_cast<float>(inputs));
    return {outputs, inputs,
            random_floats(static_cast<std::size_t>(outputs * inputs), spread, seed)};
  }
  EncodedMatrix view() const {
    return {Encoding::kF32, outputs, inputs, reinterpret_cast<const std::uint8_t*>(values.data())};
  }
};

// One packed matrix of the rows of all.
inline PackedWeight pack(Device& device, const std::vector<const TestWeights*>& parts) {
  std::vector<EncodedMatrix> views;
  for (const TestWeights* part : parts) views.push_back(part->view());
  return std::move(device.pack(views, {})).value();
}

// W x (+ bias).
inline Numbers product(const TestWeights& weights, const Numbers& x, const Floats& bias = {}) {
  Numbers out;
  for (std::int64_t n = 0; n < weights.outputs; ++n) {
    double sum = bias.empty() ? 0.0 : static_cast<double>(bias[static_cast<std::size_t>(n)]);
    for (std::int64_t k = 0; k < weights.inputs; ++k) {
      sum += static_cast<double>(weights.values[static_cast<std::size_t>(n * weights.inputs + k)]) *
             x[static_cast<std::size_t>(k)];
    }
    out.push_back(sum);
  }
  return out;
}

// A norm as numbers; none where there are no weights.
struct TestNorm {
  static constexpr float kEpsilon = 1e-5F;

  NormKind kind = NormKind::kRms;
  Floats weight;
  Floats bias;

  static TestNorm rms(std::size_t size, unsigned seed) {
    return {NormKind::kRms, random_floats(size, 1.0F, seed), {}};
  }
  static TestNorm layer(std::size_t size, unsigned seed) {
    return {NormKind::kLayer, random_floats(size, 1.0F, seed), random_floats(size, 1.0F, seed + 1)};
  }

  Norm norm() const {
    return {kind, kEpsilon, DeviceFloats::of_host(weight), DeviceFloats::of_host(bias)};
  }

  Numbers of(const Numbers& x) const {
    if (weight.empty()) return x;
    const auto size = static_cast<double>(x.size());
    Numbers out = x;
    if (kind == NormKind::kLayer) {
      const double mean = std::accumulate(x.begin(), x.end(), 0.0) / size;
      for (double& value : out) value -= mean;
    }
    const double squares = std::inner_product(out.begin(), out.end(), out.begin(), 0.0);
    const double scale = 1.0 / std::sqrt(squares / size + static_cast<double>(kEpsilon));
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] *= scale * static_cast<double>(weight[i]);
      if (!bias.empty()) out[i] += static_cast<double>(bias[i]);
    }
    return out;
  }
  std::vector<Numbers> of(const std::vector<Numbers>& rows) const {
    std::vector<Numbers> out;
    for (const Numbers& row : rows) out.push_back(of(row));
    return out;
  }
};

// hidden += added * scale
inline void add_to(std::vector<Numbers>& hidden, const std::vector<Numbers>& added,
                   float scale = 1.0F) {
  for (std::size_t row = 0; row < hidden.size(); ++row) {
    for (std::size_t i = 0; i < hidden[row].size(); ++i) {
      hidden[row][i] += added[row][i] * static_cast<double>(scale);
    }
  }
}

// Runs block(x, residual) between norms, as a layer does.
template <typename Block>
void forward_between(ForwardContext& ctx, const TestNorm& input, const TestNorm& output,
                     float* hidden, Block block) {
  const Norm after = output.norm();
  const Arena::Scope scope(ctx.arena);
  float* x = ctx.arena.floats(ctx.tokens.num_tokens * kHiddenSize);
  input.norm().apply(ctx.ops, hidden, ctx.tokens.num_tokens, x);
  block(x, Residual{.hidden = hidden, .norm = &after, .scale = 1.0F, .scratch = x});
}

// Takes sequences through a block, or several, in steps of a batch, over the KV memory of some
// layers: in blocks of four tokens, in shuffled order. What nobody wrote there is NaN.
class TestSequences {
 public:
  static constexpr std::int32_t kBlockSize = 4;

  // `latent_dims`: as KvLayout has it.
  TestSequences(IsaLevel level, const AttentionShape& shape, std::size_t num_layers,
                std::vector<Floats> inputs, std::int64_t hidden_size,
                const ExpertSizes& experts = {}, std::int32_t latent_dims = 0,
                const HeadSizes& head_products = {})
      : level_(level),
        shape_(shape),
        layout_{DType::kF32, kBlockSize, shape.num_kv_heads, shape.head_dim, 0, latent_dims},
        hidden_size_(hidden_size),
        experts_(experts),
        head_products_(head_products),
        inputs_(std::move(inputs)) {
    std::size_t num_blocks = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      tables_.emplace_back(static_cast<std::size_t>((length(i) + kBlockSize - 1) / kBlockSize));
      num_blocks += tables_.back().size();
    }
    std::vector<BlockId> ids(num_blocks);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(7));
    for (auto& table : tables_) {
      for (BlockId& id : table) {
        id = ids.back();
        ids.pop_back();
      }
    }
    memory_.assign(num_layers,
                   std::vector<std::byte>(num_blocks * layout_.block_bytes(), std::byte{0xFF}));
  }

  // Blocks of its layers have states in them, which may be as large as the blocks.
  void keep_states() { keeps_states_ = true; }

  std::int32_t length(std::size_t i) const {
    return static_cast<std::int32_t>(std::ssize(inputs_[i]) / hidden_size_);
  }

  // What forward(ctx, hidden) makes of all inputs, at most `chunk` tokens of each sequence a step.
  // It may use `arena_bytes` of the arena, of which not a byte more is touched.
  template <typename Forward>
  std::vector<Floats> run(std::int32_t chunk, std::uint64_t arena_bytes, int num_threads,
                          Forward forward) {
    CpuDevice device(num_threads, op_table(level_));
    std::int32_t longest = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i) longest = std::max(longest, length(i));
    const AttentionHeads heads = {shape_.num_kv_heads, shape_.num_heads / shape_.num_kv_heads};
    const std::int64_t max_rows = chunk * std::ssize(inputs_);
    const std::unique_ptr<OpStream> ops =
        device
            .make_stream({.max_rows = max_rows,
                          .max_inputs = kMaxInputs,
                          .attention = {shape_.head_dim, heads.heads_per_kv_head, longest,
                                        shape_.num_kv_heads, std::ssize(inputs_)},
                          .experts = experts_,
                          .head_products = head_products_})
            .value();
    constexpr std::uint64_t kGuard = 4096;
    const Buffer memory = Buffer::allocate(arena_bytes + kGuard).value();
    std::fill(memory.bytes().begin(), memory.bytes().end(), kUntouched);
    const auto plan = ops->plan_attention(max_rows, heads);
    std::vector<Floats> outputs(inputs_.size());
    for (std::int32_t begin = 0; begin < longest; begin += chunk) {
      Step step = step_of(begin, chunk);
      plan->build({static_cast<std::int32_t>(step.seq_lens.size()), step.query_start_loc.data(),
                   step.seq_lens.data(), step.tables.data(), kBlockSize});
      std::vector<std::byte*> layers;
      for (auto& layer : memory_) layers.push_back(layer.data());
      const std::vector<LayerTables> tables_of_layers(
          layers.size(), {.slot_mapping = step.slots.data(),
                          .block_tables = step.tables.data(),
                          .state_runs = step.state_runs.data(),
                          .num_state_runs = std::ssize(step.state_runs)});
      KvLayout layout = layout_;
      layout.stride = layout.block_bytes();
      const std::vector<LayerHeads> heads_of_layers(layers.size(), {layout, plan.get()});
      Arena arena(memory.bytes().first(arena_bytes));
      ForwardContext ctx{.ops = *ops,
                         .arena = arena,
                         .tokens = {.num_tokens = std::ssize(step.positions),
                                    .token_ids = nullptr,
                                    .positions = step.positions.data(),
                                    .slot_mapping = step.slots.data()},
                         .attention_plan = plan.get(),
                         .kv_layout = layout_,
                         .kv_layers = layers.data(),
                         .layer_tables = tables_of_layers.data(),
                         .layer_heads = heads_of_layers.data()};
      if (!keeps_states_) {
        ctx.layer_tables = nullptr;
        ctx.layer_heads = nullptr;
      }
      forward(ctx, step.hidden.data());
      auto row = step.hidden.begin();
      for (std::size_t i = 0; i < step.active.size(); ++i) {
        const auto count = (step.query_start_loc[i + 1] - step.query_start_loc[i]) * hidden_size_;
        Floats& output = outputs[step.active[i]];
        output.insert(output.end(), row, row + count);
        row += count;
      }
    }
    for (const std::byte byte : memory.bytes().subspan(arena_bytes)) {
      EXPECT_EQ(byte, kUntouched) << "the arena was too small";
      if (byte != kUntouched) break;
    }
    return outputs;
  }

  // What `reference` makes of each sequence, which it gets as its tokens' hidden states, is what
  // `outputs` are.
  template <typename Reference>
  void expect(const std::vector<Floats>& outputs, Reference reference) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      std::vector<Numbers> hidden;
      for (auto at = inputs_[i].begin(); at < inputs_[i].end(); at += hidden_size_) {
        hidden.emplace_back(at, at + hidden_size_);
      }
      reference(hidden);
      ASSERT_EQ(outputs[i].size(), inputs_[i].size());
      for (std::size_t k = 0; k < outputs[i].size(); ++k) {
        const std::size_t position = k / static_cast<std::size_t>(hidden_size_);
        const double expected = hidden[position][k % static_cast<std::size_t>(hidden_size_)];
        ASSERT_NEAR(outputs[i][k], expected, kTolerance * (1.0 + std::abs(expected)))
            << "sequence " << i << ", position " << position << ", number "
            << k % static_cast<std::size_t>(hidden_size_);
      }
    }
  }

 private:
  static constexpr double kTolerance = 2e-5;
  static constexpr std::int64_t kMaxInputs = 256;
  static constexpr std::byte kUntouched{0xA5};

  struct Step {
    std::vector<std::size_t> active;  // sequences
    std::vector<std::int32_t> query_start_loc = {0};
    std::vector<std::int32_t> seq_lens;
    std::vector<const BlockId*> tables;
    std::vector<std::int32_t> positions;
    std::vector<std::int64_t> slots;
    std::vector<StateRun> state_runs;
    Floats hidden;
  };
  Step step_of(std::int32_t begin, std::int32_t chunk) const {
    Step step;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const std::int32_t end = std::min(begin + chunk, length(i));
      if (begin >= end) continue;
      step.active.push_back(i);
      append_state_runs(step.query_start_loc.back(), begin, end, kBlockSize, tables_[i],
                        step.state_runs);
      step.query_start_loc.push_back(step.query_start_loc.back() + end - begin);
      step.seq_lens.push_back(end);
      step.tables.push_back(tables_[i].data());
      for (std::int32_t position = begin; position < end; ++position) {
        const BlockId block = tables_[i][static_cast<std::size_t>(position / kBlockSize)];
        step.positions.push_back(position);
        step.slots.push_back(std::int64_t{block} * kBlockSize + position % kBlockSize);
      }
      step.hidden.insert(step.hidden.end(), inputs_[i].begin() + begin * hidden_size_,
                         inputs_[i].begin() + end * hidden_size_);
    }
    return step;
  }

  IsaLevel level_;
  AttentionShape shape_;
  KvLayout layout_;
  std::int64_t hidden_size_;
  ExpertSizes experts_;
  HeadSizes head_products_;
  bool keeps_states_ = false;
  std::vector<Floats> inputs_;
  std::vector<std::vector<BlockId>> tables_;
  std::vector<std::vector<std::byte>> memory_;
};

// Hidden states of sequences of these lengths.
inline std::vector<Floats> random_sequences(const std::vector<std::int32_t>& lengths,
                                            std::int64_t hidden_size) {
  std::vector<Floats> sequences;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    sequences.push_back(random_floats(static_cast<std::size_t>(lengths[i] * hidden_size), 1.0F,
                                      static_cast<unsigned>(100 + i)));
  }
  return sequences;
}

}  // namespace quire
