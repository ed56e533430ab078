// A mixture of experts. Rows are taken some at a time, so that scratch stays small: their pairs of
// a row and an expert are sorted by expert, the first products of all experts are one launch, the
// second ones another, and at last the results of each row are added in the order of its experts.
// What a pair gives depends on neither its position nor the tile that it is in.
#include <algorithm>
#include <span>

#include "base/checked.h"
#include "kernels/cuda/products/expert_down.h"
#include "kernels/cuda/products/expert_lists.h"
#include "kernels/cuda/products/expert_steps.h"
#include "kernels/cuda/products/experts.h"
#include "kernels/cuda/products/fragment_form.h"
#include "kernels/cuda/products/grouped_float.h"
#include "kernels/cuda/products/grouped_products.h"
#include "kernels/cuda/products/products.h"
#include "tensor/arena.h"

namespace quire::cuda {
namespace {

constexpr std::uint64_t kMostScratchBytes = std::uint64_t{256} << 20;
constexpr std::int64_t kLeastRowsAtOnce = 64;
static_assert(kFewTileRows == kFloatTileRows);

ExpertSizes sizes_of(const ExpertProducts& products) {
  return {.num_experts = std::ssize(products.experts),
          .experts_per_row = products.experts_per_row,
          .hidden_size = products.experts[0].gate.inputs(),
          .intermediate_size = products.experts[0].gate.outputs()};
}

// Calls array(pointer, count) for each piece of scratch that some rows need.
struct ExpertScratch {
  ExpertLists lists;
  std::uint16_t* rounded = nullptr;         // inputs of the first products, of rows or of pairs
  float* rounded_sums = nullptr;            // InputSums of 32 inputs
  std::uint16_t* rounded_hidden = nullptr;  // inputs of the second products, of pairs
  float* hidden_sums = nullptr;
  float* inputs = nullptr;   // of pairs, of the first or the second products
  float* gate = nullptr;     // [pairs][intermediate_size]
  float* up = nullptr;       // the same
  float* results = nullptr;  // [pairs][hidden_size]

  template <typename Array>
  void lay_out(const ExpertSizes& sizes, std::int64_t rows, const Array& array) {
    const std::int64_t pairs = rows * sizes.experts_per_row;
    const std::int64_t hidden = sizes.hidden_size;
    const std::int64_t width = sizes.intermediate_size;
    array(lists.pair_at, pairs);
    array(lists.row_at, pairs);
    array(lists.expert_at, pairs);
    array(lists.position_of, pairs);
    array(lists.tiles, max_tiles(pairs, sizes.num_experts, kFewTileRows));
    array(lists.num_tiles, 1);
    array(rounded, pairs * padded_inputs(hidden));
    array(rounded_sums, ceil_div(hidden, kGroupInputs) * sum_stride(pairs));
    array(rounded_hidden, pairs * padded_inputs(width));
    array(hidden_sums, ceil_div(width, kGroupInputs) * sum_stride(pairs));
    array(inputs, pairs * std::max(hidden, width));
    array(gate, pairs * width);
    array(up, pairs * width);
    array(results, pairs * hidden);
  }

  static std::uint64_t bytes(const ExpertSizes& sizes, std::int64_t rows) {
    std::uint64_t sum = 0;
    ExpertScratch scratch;
    scratch.lay_out(sizes, rows, [&]<typename T>(T*& /*array*/, std::int64_t count) {
      sum += Arena::array_bytes<T>(count);
    });
    return sum;
  }
};

// Rows that scratch is for, at most.
std::int64_t rows_at_once(const ExpertSizes& sizes) {
  const std::uint64_t of_least = ExpertScratch::bytes(sizes, kLeastRowsAtOnce);
  const auto times = static_cast<std::int64_t>(kMostScratchBytes / of_least);
  return kLeastRowsAtOnce * std::max<std::int64_t>(1, times);
}

// Matrices of all experts that are multiplied at once.
enum class ExpertHalf : std::uint8_t { kGateAndUp, kDown };

class ExpertCall {
 public:
  ExpertCall(const Launch& launch, const ExpertProducts& products, const ExpertSizes& sizes,
             const ExpertScratch& scratch)
      : launch_(launch),
        products_(products),
        sizes_(sizes),
        scratch_(scratch),
        first_(look_at(ExpertHalf::kGateAndUp, products.gate_up_mode)),
        second_(look_at(ExpertHalf::kDown, products.down_mode)) {}

  // x, out: of `rows` rows from row `first_row` of the call on.
  void compute(const float* x, std::int64_t first_row, std::int64_t rows, float* out) {
    rows_ = rows;
    pairs_ = rows * sizes_.experts_per_row;
    const std::int64_t first_pair = first_row * sizes_.experts_per_row;
    weights_ = products_.weights + first_pair;
    tile_rows_ =
        first_.is_float || second_.is_float
            ? kFloatTileRows
            : tile_rows_of(pairs_ / sizes_.num_experts, first_.has_wide && second_.has_wide);
    list_experts(launch_, products_.chosen + first_pair, pairs_, sizes_.experts_per_row,
                 sizes_.num_experts, tile_rows_, scratch_.lists);
    if (first_.is_float) {
      compute_float_gate_and_up(x);
    } else {
      compute_gate_and_up(x);
    }
    if (sums_are_fused()) {
      compute_down_and_sums(out);
      return;
    }
    if (second_.is_float) {
      compute_float_down();
    } else {
      compute_down();
    }
    add_pairs(launch_, scratch_.results, rows, sizes_.experts_per_row, sizes_.hidden_size,
              scratch_.lists, pair_weights(), out);
  }

 private:
  // What the matrices of a half are.
  struct Half {
    ExpertHalf which = ExpertHalf::kGateAndUp;
    bool is_float = false;    // products are those of float_panel.cuh
    bool is_ordered = false;  // some have an order of inputs
    bool is_even = true;      // an expert's have one layout
    bool has_one_layout = true;
    bool has_wide = true;  // has_wide_tiles() of all
  };

  static constexpr int num_matrices(ExpertHalf half) {
    return half == ExpertHalf::kGateAndUp ? 2 : 1;
  }
  const PackedWeight& matrix(ExpertHalf half, std::int64_t expert, int index) const {
    const ExpertWeights& of = products_.experts[static_cast<std::size_t>(expert)];
    if (half == ExpertHalf::kDown) return of.down;
    return index == 0 ? of.gate : of.up;
  }

  Half look_at(ExpertHalf which, ActivationMode mode) const {
    Half half = {.which = which, .is_float = mode == ActivationMode::kFloat32};
    const WeightLayout layout = matrix(which, 0, 0).layout();
    for (std::int64_t expert = 0; expert < sizes_.num_experts; ++expert) {
      const WeightLayout own = matrix(which, expert, 0).layout();
      for (int i = 0; i < num_matrices(which); ++i) {
        const PackedWeight& weight = matrix(which, expert, i);
        if (!multiplies_on_tensor_cores(weight.layout())) half.is_float = true;
        if (weight.input_order() != nullptr) half.is_ordered = true;
        if (weight.layout() != own) half.is_even = false;
        if (weight.layout() != layout) half.has_one_layout = false;
        if (!has_wide_tiles(weight.layout())) half.has_wide = false;
      }
    }
    return half;
  }

  // Calls fn(first, count) for runs of experts that fit the arguments of a kernel.
  template <typename F>
  void for_runs(const F& fn) const {
    for (std::int64_t first = 0; first < sizes_.num_experts; first += kMaxGroups) {
      fn(first, std::min<std::int64_t>(kMaxGroups, sizes_.num_experts - first));
    }
  }

  // Calls fn(like, args) for each launch that the half's products take: of a layout and some
  // experts, and of all matrices of an expert where these have one layout. Rows are positions, and
  // so are those of the results.
  template <typename F>
  void for_launches(const Half& half, const F& fn) const {
    const int at_once = half.is_even ? num_matrices(half.which) : 1;
    for (int index = 0; index < num_matrices(half.which); index += at_once) {
      bool is_done[kNumWeightLayouts] = {};
      for (std::int64_t expert = 0; expert < sizes_.num_experts; ++expert) {
        const PackedWeight& like = matrix(half.which, expert, index);
        bool& is_layout_done = is_done[static_cast<std::size_t>(like.layout())];
        if (is_layout_done) continue;
        is_layout_done = true;
        for_runs([&](std::int64_t first, std::int64_t count) {
          GroupedArgs args = args_of(like, first, count);
          for (int i = 0; i < at_once; ++i) add_matrices(args, half.which, index + i, like);
          fn(like, args);
        });
        if (half.has_one_layout) break;
      }
    }
  }

  GroupedArgs args_of(const PackedWeight& like, std::int64_t first, std::int64_t count) const {
    GroupedArgs args;
    args.first_group = static_cast<std::int32_t>(first);
    args.num_groups = static_cast<std::int32_t>(count);
    args.panel_bytes = static_cast<std::int64_t>(panel_bytes(like.layout(), like.inputs()));
    args.inputs = like.inputs();
    args.outputs = like.outputs();
    args.tiles = scratch_.lists.tiles;
    args.num_tiles = scratch_.lists.num_tiles;
    args.max_tiles = static_cast<std::int32_t>(max_tiles(pairs_, sizes_.num_experts, tile_rows_));
    args.tile_rows = static_cast<std::int32_t>(tile_rows_);
    args.out_stride = args.outputs;
    return args;
  }

  // Those of layout `like` among matrices `index` of the half.
  void add_matrices(GroupedArgs& args, ExpertHalf half, int index, const PackedWeight& like) const {
    const int at = args.num_matrices++;
    for (std::int32_t i = 0; i < args.num_groups; ++i) {
      const PackedWeight& weight = matrix(half, args.first_group + i, index);
      if (weight.layout() == like.layout()) args.panels[at][i] = weight.bytes().data();
    }
    if (half == ExpertHalf::kDown) {
      args.out[at] = scratch_.results;
      args.biases[at] = products_.down_biases;
    } else {
      args.out[at] = index == 0 ? scratch_.gate : scratch_.up;
      args.biases[at] = index == 0 ? products_.gate_biases : products_.up_biases;
    }
  }

  // Of matrices of tensor cores, whose inputs are rounded in the order of the weights.
  InputOrders orders_of(const Half& half, std::int64_t first, std::int64_t count) const {
    InputOrders orders = {.first_expert = static_cast<std::int32_t>(first),
                          .num_experts = static_cast<std::int32_t>(count)};
    if (half.is_float || !half.is_ordered) return orders;
    for (std::int64_t expert = 0; expert < count; ++expert) {
      orders.of[expert] = matrix(half.which, first + expert, 0).input_order();
    }
    return orders;
  }

  void gather_inputs(const float* x) {
    for_runs([&](std::int64_t first, std::int64_t count) {
      gather_pairs(launch_, x, pairs_, sizes_.hidden_size, scratch_.lists,
                   products_.weigh_inputs ? weights_ : nullptr, orders_of(first_, first, count),
                   scratch_.inputs);
    });
  }

  void compute_float_gate_and_up(const float* x) {
    if (products_.weigh_inputs) gather_inputs(x);
    for_launches(first_, [&](const PackedWeight& like, GroupedArgs args) {
      if (!products_.weigh_inputs) args.x_rows = scratch_.lists.row_at;
      multiply_floats(first_.which, like, args, products_.weigh_inputs ? scratch_.inputs : x);
    });
    activate();
  }

  void compute_float_down() {
    for_launches(second_, [&](const PackedWeight& like, const GroupedArgs& args) {
      multiply_floats(second_.which, like, args, scratch_.gate);
    });
  }

  void multiply_floats(ExpertHalf half, const PackedWeight& like, const GroupedArgs& args,
                       const float* x) const {
    FloatInputs inputs = {
        .x = x,
        .x_stride = like.inputs(),
        .is_aligned = like.inputs() % 4 == 0 && reinterpret_cast<std::uintptr_t>(x) % 16 == 0};
    for (std::int32_t i = 0; i < args.num_groups; ++i) {
      if (matrix(half, args.first_group + i, 0).input_order() == nullptr) continue;
      inputs.is_ordered[i / 32] |= 1U << i % 32;
    }
    grouped_float_product(launch_, like, args, inputs);
  }

  void compute_gate_and_up(const float* x) {
    const bool is_gathered = products_.weigh_inputs || first_.is_ordered;
    if (is_gathered) gather_inputs(x);
    const bool is_fused =
        first_.is_even && !second_.is_float && !second_.is_ordered && second_.has_one_layout;
    for_launches(first_, [&](const PackedWeight& like, GroupedArgs args) {
      const GroupedInputs inputs =
          round(like, is_gathered ? scratch_.inputs : x, is_gathered ? pairs_ : rows_,
                scratch_.rounded, scratch_.rounded_sums);
      if (!is_gathered) args.x_rows = scratch_.lists.row_at;
      if (is_fused) {
        grouped_gated_product(launch_, like.layout(), args, inputs, function(), rounded_outputs());
      } else {
        grouped_product(launch_, like.layout(), args, inputs);
      }
    });
    is_hidden_rounded_ = is_fused;
    if (!is_fused) activate();
  }

  void compute_down() {
    for_launches(second_, [&](const PackedWeight& like, const GroupedArgs& args) {
      grouped_product(launch_, like.layout(), args, hidden_inputs(like));
    });
  }

  bool sums_are_fused() const {
    return !second_.is_float && second_.has_one_layout && tile_rows_ == kFewTileRows &&
           pairs_ <= kMaxDownPairs && sizes_.num_experts <= kMaxGroups;
  }
  void compute_down_and_sums(float* out) {
    for_launches(second_, [&](const PackedWeight& like, const GroupedArgs& args) {
      expert_down(launch_, like.layout(), args, hidden_inputs(like),
                  {.position_of = scratch_.lists.position_of,
                   .weights = pair_weights(),
                   .rows = rows_,
                   .experts_per_row = sizes_.experts_per_row,
                   .out = out});
    });
  }

  // Of the second products.
  GroupedInputs hidden_inputs(const PackedWeight& like) const {
    if (!is_hidden_rounded_) {
      return round(like, scratch_.inputs, pairs_, scratch_.rounded_hidden, scratch_.hidden_sums);
    }
    const bool has_sums = fragment_form(like.layout()).has_minimum;
    return {.x = scratch_.rounded_hidden,
            .sums = has_sums ? scratch_.hidden_sums : nullptr,
            .rows = pairs_};
  }

  // Of what comes out of experts; null: 1.
  const float* pair_weights() const { return products_.weigh_inputs ? nullptr : weights_; }

  // What goes into the second products, in the order of their weights where these are multiplied
  // on tensor cores; in place where there is no order.
  void activate() {
    is_hidden_rounded_ = false;
    float* const out = second_.is_float ? scratch_.gate : scratch_.inputs;
    for_runs([&](std::int64_t first, std::int64_t count) {
      activate_pairs(launch_, scratch_.gate, scratch_.up, pairs_, sizes_.intermediate_size,
                     function(), scratch_.lists, orders_of(second_, first, count), out);
    });
  }

  GateFunction function() const { return {products_.activation, products_.clamped}; }

  RoundedOutputs rounded_outputs() const {
    const FragmentForm form = fragment_form(products_.experts[0].down.layout());
    return {.x = scratch_.rounded_hidden,
            .sums = form.has_minimum ? scratch_.hidden_sums : nullptr,
            .rows = pairs_,
            .places = form.places()};
  }

  GroupedInputs round(const PackedWeight& like, const float* x, std::int64_t rows,
                      std::uint16_t* out, float* sums) const {
    const FragmentForm form = fragment_form(like.layout());
    if (!form.has_minimum) sums = nullptr;
    round_fragments(launch_, x, like.inputs(), rows, like.inputs(), nullptr, form.places(), out,
                    {.sum_inputs = kGroupInputs, .values = sums});
    return {.x = out, .sums = sums, .rows = rows};
  }

  Launch launch_;
  const ExpertProducts& products_;
  ExpertSizes sizes_;
  ExpertScratch scratch_;
  Half first_;
  Half second_;
  std::int64_t rows_ = 0;
  std::int64_t pairs_ = 0;
  std::int64_t tile_rows_ = 0;
  const float* weights_ = nullptr;
  bool is_hidden_rounded_ = false;
};

}  // namespace

std::uint64_t experts_workspace_bytes(const StreamLimits& limits) {
  if (limits.experts.num_experts == 0) return 0;
  const std::int64_t rows = std::min(limits.max_rows, rows_at_once(limits.experts));
  return ExpertScratch::bytes(limits.experts, rows);
}

void expert_mlp(const Launch& launch, const float* x, std::int64_t rows,
                const ExpertProducts& products, float* out) {
  if (rows == 0) return;
  const ExpertSizes sizes = sizes_of(products);
  std::int64_t at_once = std::min(rows, rows_at_once(sizes));
  // Limits are those of the largest layer: what it takes may be cut at other rows.
  while (at_once > 1 && ExpertScratch::bytes(sizes, at_once) > launch.workspace_bytes) {
    at_once = ceil_div(at_once, 2);
  }
  ExpertScratch scratch;
  Arena arena({launch.workspace, launch.workspace_bytes});
  scratch.lay_out(sizes, at_once, [&]<typename T>(T*& array, std::int64_t count) {
    array = arena.array<T>(count);
  });
  ExpertCall call(launch, products, sizes, scratch);
  for (std::int64_t row = 0; row < rows; row += at_once) {
    call.compute(x + row * sizes.hidden_size, row, std::min(at_once, rows - row),
                 out + row * sizes.hidden_size);
  }
}

}  // namespace quire::cuda
