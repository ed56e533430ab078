// A mixture of experts: what the experts that a row goes to make of it.
//
// The pairs of a row and an expert that it goes to are sorted by expert and computed in waves of
// whole experts. Of each wave the rows are gathered, the first halves of all its experts are one
// parallel region, the second halves another, so that a step with few rows has as much to hand out
// as one large MLP; then the results are added to the rows in the order of the pairs. An expert's
// products give a row the same bits whatever other rows there are, and a row's experts come in
// their order in every batch, so a row's sum has the same bits too.
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/checked.h"
#include "kernels/gated_call.h"
#include "kernels/op_span.h"
#include "kernels/ops.h"
#include "kernels/sizing.h"

namespace quire {
namespace {

constexpr Stage kExpertsStage = {StageKind::kKernel, "experts"};

// With so few pairs all experts are one wave.
constexpr std::int64_t kMinWavePairs = 256;
// Into which a wave is cut where experts have unequal numbers of rows, at least.
constexpr std::int64_t kChunksPerThread = 4;
// Numbers below which handing work to another thread costs more than it saves.
constexpr std::int64_t kGrainNumbers = 8192;

// Any one expert has at most all rows.
std::int64_t max_wave_pairs(std::int64_t rows, std::int64_t experts_per_row) {
  return std::max(rows, std::min(rows * experts_per_row, kMinWavePairs));
}

// Bytes of the rounded inputs of several products that are there at once.
std::uint64_t rounded_bytes(std::int64_t pairs, std::int64_t inputs, std::int64_t num_calls) {
  return matmul_workspace_bytes(pairs, inputs) +
         static_cast<std::uint64_t>(num_calls) * matmul_workspace_bytes(0, inputs);
}

// An expert that rows go to: pairs [begin, end).
struct ExpertRows {
  std::int64_t expert = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class ExpertCall {
 public:
  ExpertCall(OpContext& ctx, const float* x, std::int64_t rows, const ExpertProducts& products,
             float* out)
      : ctx_(ctx),
        workspace_(ctx.workspace),
        x_(x),
        rows_(rows),
        products_(products),
        hidden_(products.experts[0].gate.inputs()),
        width_(products.experts[0].gate.outputs()),
        out_(out),
        pairs_(rows * products.experts_per_row) {
    const std::int64_t wave_pairs = max_wave_pairs(rows, products.experts_per_row);
    sort_pairs();
    wave_pairs_ = wave_pairs;
    rows_of_pairs_ = workspace_.floats(wave_pairs * hidden_);
    gated_ = workspace_.floats(wave_pairs * width_);
  }

  void compute() {
    std::fill_n(out_, rows_ * hidden_, 0.0F);
    for (std::int64_t first = 0; first < num_used_;) {
      std::int64_t last = first + 1;
      while (last < num_used_ && used_[last].end - used_[first].begin <= wave_pairs_) ++last;
      compute_wave({used_ + first, used_ + last});
      first = last;
    }
  }

  // The weights of the experts that rows go to are read, each once.
  SpanCost cost() const {
    SpanCost cost;
    for (const ExpertRows& of : std::span(used_, static_cast<std::size_t>(num_used_))) {
      const ExpertWeights& expert = products_.experts[static_cast<std::size_t>(of.expert)];
      const MatmulPart parts[] = {
          {.weight = &expert.gate}, {.weight = &expert.up}, {.weight = &expert.down}};
      const SpanCost one = cost_of(parts, of.end - of.begin);
      cost.bytes += one.bytes;
      cost.operations += one.operations;
    }
    return cost;
  }

 private:
  using Wave = std::span<const ExpertRows>;

  // Pairs in the order of their experts, those of one in the order of their rows.
  void sort_pairs() {
    const std::int64_t num_experts = std::ssize(products_.experts);
    order_ = workspace_.array<std::int64_t>(pairs_);
    used_ = workspace_.array<ExpertRows>(std::min(num_experts, pairs_));
    auto* const next = workspace_.array<std::int64_t>(num_experts);
    std::fill_n(next, num_experts, std::int64_t{0});
    for (std::int64_t pair = 0; pair < pairs_; ++pair) ++next[products_.chosen[pair]];
    std::int64_t begin = 0;
    for (std::int64_t expert = 0; expert < num_experts; ++expert) {
      const std::int64_t count = next[expert];
      next[expert] = begin;
      if (count == 0) continue;
      used_[num_used_++] = {.expert = expert, .begin = begin, .end = begin + count};
      begin += count;
    }
    for (std::int64_t pair = 0; pair < pairs_; ++pair)
      order_[next[products_.chosen[pair]]++] = pair;
  }

  void compute_wave(Wave wave) {
    const std::int64_t begin = wave.front().begin;
    const std::int64_t count = wave.back().end - begin;
    const std::int64_t grain = std::max<std::int64_t>(1, kGrainNumbers / hidden_);
    ctx_.pool.parallel_for(count, grain, [&](std::int64_t first, std::int64_t last, int) {
      for (std::int64_t i = first; i < last; ++i) gather(order_[begin + i], i);
    });
    compute_gated(wave);
    compute_down(wave);
    add_to_rows(begin, count);
  }

  // What goes into the expert of `pair`.
  void gather(std::int64_t pair, std::int64_t index) const {
    const float* const from = x_ + pair / products_.experts_per_row * hidden_;
    float* const to = rows_of_pairs_ + index * hidden_;
    if (!products_.weigh_inputs) {
      std::copy_n(from, hidden_, to);
      return;
    }
    const float weight = products_.weights[pair];
    for (std::int64_t c = 0; c < hidden_; ++c) to[c] = weight * from[c];
  }

  // Of one expert, of those of all.
  static const float* bias(const float* biases, const ExpertRows& of, std::int64_t outputs) {
    return biases == nullptr ? nullptr : biases + of.expert * outputs;
  }

  // gated_ = activation(gate(row)) * up(row)
  void compute_gated(Wave wave) {
    const Arena::Scope scope(workspace_);
    auto* const calls = workspace_.array<GatedCall>(std::ssize(wave));
    float* const scratch = workspace_.floats(GatedCall::kScratchFloats * ctx_.pool.num_threads());
    for (std::size_t i = 0; i < wave.size(); ++i) {
      const ExpertWeights& expert = products_.experts[static_cast<std::size_t>(wave[i].expert)];
      const GatedProducts products = {.gate = &expert.gate,
                                      .up = &expert.up,
                                      .gate_bias = bias(products_.gate_biases, wave[i], width_),
                                      .up_bias = bias(products_.up_biases, wave[i], width_),
                                      .activation = products_.activation,
                                      .clamped = products_.clamped};
      const std::int64_t first = wave[i].begin - wave[0].begin;
      std::construct_at(calls + i, ctx_, rows_of_pairs_ + first * hidden_,
                        wave[i].end - wave[i].begin, products_.gate_up_mode, products, workspace_);
    }
    for_panels(wave, ceil_div(width_, kPanelOutputs), calls[0].max_panels(),
               [&](std::size_t i, std::int64_t begin, std::int64_t end, int worker) {
                 float* const gated = gated_ + (wave[i].begin - wave[0].begin) * width_;
                 calls[i].compute(begin, end, scratch + worker * GatedCall::kScratchFloats, gated);
               });
  }

  // rows_of_pairs_ = down(gated_)
  void compute_down(Wave wave) {
    const Arena::Scope scope(workspace_);
    auto* const calls = workspace_.array<MatmulCall>(std::ssize(wave));
    auto* const parts = workspace_.array<MatmulPart>(std::ssize(wave));
    for (std::size_t i = 0; i < wave.size(); ++i) {
      const std::int64_t first = wave[i].begin - wave[0].begin;
      parts[i] = {.weight = &products_.experts[static_cast<std::size_t>(wave[i].expert)].down,
                  .out = rows_of_pairs_ + first * hidden_,
                  .out_stride = hidden_,
                  .bias = bias(products_.down_biases, wave[i], hidden_)};
      std::construct_at(calls + i, ctx_, gated_ + first * width_, width_,
                        wave[i].end - wave[i].begin, MatmulCall::kAllRows, products_.down_mode,
                        std::span(parts + i, 1), workspace_);
    }
    for_panels(wave, ceil_div(hidden_, kPanelOutputs), calls[0].max_panels(),
               [&](std::size_t i, std::int64_t begin, std::int64_t end, int) {
                 calls[i].compute_panels(parts[i], begin, end,
                                         [](const MatmulPart&, const MatmulTile&) {});
               });
  }

  // Calls fn(i, begin, end, worker) for panels of expert i of the wave, until all panels of all are
  // done: one region for all experts.
  template <typename F>
  void for_panels(Wave wave, std::int64_t panels, std::int64_t largest, const F& fn) {
    ctx_.pool.parallel_for_guided(
        std::ssize(wave) * panels, kPanelGrain, chunk_panels(wave, panels, largest),
        [&](std::int64_t begin, std::int64_t end, int worker) {
          while (begin < end) {
            const std::int64_t i = begin / panels;
            const std::int64_t next = std::min(end, (i + 1) * panels);
            fn(static_cast<std::size_t>(i), begin - i * panels, next - i * panels, worker);
            begin = next;
          }
        });
  }

  // Panels that a worker gets at once: `largest`, or fewer where one expert has so many of the
  // wave's rows that its panels are much more work than the others'.
  std::int64_t chunk_panels(Wave wave, std::int64_t panels, std::int64_t largest) const {
    std::int64_t most_rows = 0;
    for (const ExpertRows& of : wave) most_rows = std::max(most_rows, of.end - of.begin);
    const std::int64_t rows = wave.back().end - wave.front().begin;
    const std::int64_t chunks = kChunksPerThread * ctx_.pool.num_threads();
    const std::int64_t fair = rows * panels / (chunks * most_rows) / kPanelGrain * kPanelGrain;
    return std::clamp(fair, kPanelGrain, largest);
  }

  // Split by columns, so that every number has its experts' results in their order.
  void add_to_rows(std::int64_t first, std::int64_t count) {
    const std::int64_t grain = std::max<std::int64_t>(64, kGrainNumbers / count);
    ctx_.pool.parallel_for(hidden_, grain, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t pair = order_[first + i];
        const float weight = products_.weigh_inputs ? 1.0F : products_.weights[pair];
        const float* const from = rows_of_pairs_ + i * hidden_;
        float* const to = out_ + pair / products_.experts_per_row * hidden_;
        for (std::int64_t c = begin; c < end; ++c) to[c] += weight * from[c];
      }
    });
  }

  OpContext& ctx_;
  Arena workspace_;
  const float* x_;
  std::int64_t rows_;
  const ExpertProducts& products_;
  std::int64_t hidden_;
  std::int64_t width_;
  float* out_;
  std::int64_t pairs_;
  std::int64_t wave_pairs_ = 0;
  std::int64_t* order_ = nullptr;  // [pairs]: row * experts_per_row + rank
  ExpertRows* used_ = nullptr;
  std::int64_t num_used_ = 0;
  float* rows_of_pairs_ = nullptr;  // of a wave: what goes in, then what comes out
  float* gated_ = nullptr;
};

}  // namespace

std::uint64_t expert_workspace_bytes(std::int64_t max_rows, const ExpertSizes& experts,
                                     int num_threads) {
  if (experts.num_experts == 0) return 0;
  const std::int64_t pairs = max_rows * experts.experts_per_row;
  const std::int64_t calls = std::min(experts.num_experts, pairs);
  const std::int64_t wave = max_wave_pairs(max_rows, experts.experts_per_row);
  const std::uint64_t lists = Arena::array_bytes<std::int64_t>(pairs) +
                              Arena::array_bytes<ExpertRows>(calls) +
                              Arena::array_bytes<std::int64_t>(experts.num_experts);
  const std::uint64_t gated = Arena::array_bytes<GatedCall>(calls) +
                              gated_scratch_bytes(num_threads) +
                              rounded_bytes(wave, experts.hidden_size, calls);
  const std::uint64_t down = Arena::array_bytes<MatmulCall>(calls) +
                             Arena::array_bytes<MatmulPart>(calls) +
                             rounded_bytes(wave, experts.intermediate_size, calls);
  return lists + Arena::float_bytes(wave * experts.hidden_size) +
         Arena::float_bytes(wave * experts.intermediate_size) + std::max(gated, down);
}

void expert_mlp(OpContext& ctx, const float* x, std::int64_t rows, const ExpertProducts& products,
                float* out) {
  const OpSpan span(ctx, kExpertsStage);
  ExpertCall call(ctx, x, rows, products, out);
  if (span.get() != nullptr) span.get()->cost = call.cost();
  call.compute();
}

}  // namespace quire
