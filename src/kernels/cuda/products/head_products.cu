// A product for each head: groups of matrices that all have all rows. Heads are taken some at a
// time, as many as fit the arguments of a kernel and the rounded inputs of which fit the scratch.
#include <algorithm>

#include "base/checked.h"
#include "kernels/cuda/pdl_launch.cuh"
#include "kernels/cuda/products/fragment_form.h"
#include "kernels/cuda/products/grouped_float.h"
#include "kernels/cuda/products/grouped_products.h"
#include "kernels/cuda/products/head_products.h"
#include "kernels/cuda/products/products.h"
#include "tensor/arena.h"

namespace quire::cuda {
namespace {

constexpr std::uint64_t kMostRoundedBytes = std::uint64_t{128} << 20;
constexpr int kCopyThreads = 128;

struct CopiedNumbers {
  const float* x = nullptr;  // the first number of the first head
  std::int64_t x_stride = 0;
  std::int64_t x_head_stride = 0;
  std::int64_t copied = 0;
  std::int64_t num_heads = 0;
  float* out = nullptr;
  std::int64_t out_stride = 0;
  std::int64_t out_head_stride = 0;
};

// blockIdx.x: row; blockIdx.y: numbers of all its heads.
__global__ void __launch_bounds__(kCopyThreads) copy_numbers_kernel(const CopiedNumbers numbers) {
  let_next_start();
  wait_for_previous();
  const std::int64_t index = std::int64_t{blockIdx.y} * kCopyThreads + threadIdx.x;
  const std::int64_t head = index / numbers.copied;
  const std::int64_t number = index % numbers.copied;
  if (head >= numbers.num_heads) return;
  const std::int64_t row = blockIdx.x;
  numbers.out[row * numbers.out_stride + head * numbers.out_head_stride + number] =
      numbers.x[row * numbers.x_stride + head * numbers.x_head_stride + number];
}

// Rounded inputs of some heads, [rows][heads] rows of them.
struct HeadScratch {
  std::uint16_t* rounded = nullptr;
  float* sums = nullptr;

  // Calls array(pointer, count) for each piece.
  template <typename Array>
  void lay_out(std::int64_t rows, std::int64_t heads, std::int64_t inputs, const Array& array) {
    array(rounded, rows * heads * padded_inputs(inputs));
    array(sums, ceil_div(inputs, kGroupInputs) * sum_stride(rows * heads));
  }

  static std::uint64_t bytes(std::int64_t rows, std::int64_t heads, std::int64_t inputs) {
    std::uint64_t sum = 0;
    HeadScratch scratch;
    scratch.lay_out(rows, heads, inputs, [&]<typename T>(T*& /*array*/, std::int64_t count) {
      sum += Arena::array_bytes<T>(count);
    });
    return sum;
  }
};

// Rows that scratch is for, at most.
std::int64_t head_rows_at_once(std::int64_t heads, std::int64_t inputs) {
  constexpr std::int64_t kLeastRows = 64;
  const std::uint64_t of_least = HeadScratch::bytes(kLeastRows, heads, inputs);
  const auto times = static_cast<std::int64_t>(kMostRoundedBytes / of_least);
  return kLeastRows * std::max<std::int64_t>(1, times);
}

class HeadCall {
 public:
  HeadCall(const Launch& launch, ActivationMode mode, const HeadProducts& products)
      : launch_(launch),
        products_(products),
        num_heads_(std::ssize(products.weights)),
        inputs_(products.weights[0].inputs()) {
    const PackedWeight& first = products.weights[0];
    is_float_ = mode == ActivationMode::kFloat32;
    is_one_launch_ = num_heads_ <= kMaxGroups;
    for (const PackedWeight& weight : products.weights) {
      if (!multiplies_on_tensor_cores(weight.layout())) is_float_ = true;
      if (weight.layout() != first.layout() || weight.input_order() != nullptr) {
        is_one_launch_ = false;
      }
    }
    // All heads of a row are rounded at once where they lie side by side.
    if (!is_float_ && products.x_stride != num_heads_ * products.x_head_stride) {
      is_one_launch_ = false;
    }
  }

  void compute(std::int64_t rows) {
    if (products_.copied != 0) copy_numbers(rows);
    const std::int64_t heads = is_one_launch_ ? num_heads_ : 1;
    for (std::int64_t head = 0; head < num_heads_; head += heads) {
      if (is_float_) {
        multiply_floats(head, heads, rows);
        continue;
      }
      const std::int64_t at_once = rows_at_once(heads, rows);
      for (std::int64_t row = 0; row < rows; row += at_once) {
        multiply(head, heads, row, std::min(at_once, rows - row));
      }
    }
  }

 private:
  std::int64_t rows_at_once(std::int64_t heads, std::int64_t rows) const {
    std::int64_t at_once = std::min(rows, head_rows_at_once(num_heads_, inputs_));
    // Limits are those of the largest product: what it takes may be cut at other rows.
    while (at_once > 1 && HeadScratch::bytes(at_once, heads, inputs_) > launch_.workspace_bytes) {
      at_once = ceil_div(at_once, 2);
    }
    return at_once;
  }

  void copy_numbers(std::int64_t rows) const {
    const CopiedNumbers numbers = {.x = products_.x + inputs_,
                                   .x_stride = products_.x_stride,
                                   .x_head_stride = products_.x_head_stride,
                                   .copied = products_.copied,
                                   .num_heads = num_heads_,
                                   .out = products_.out,
                                   .out_stride = products_.out_stride,
                                   .out_head_stride = products_.out_head_stride};
    const dim3 grid(static_cast<unsigned>(rows),
                    static_cast<unsigned>(ceil_div(num_heads_ * products_.copied, kCopyThreads)));
    launch_dependent(copy_numbers_kernel, grid, dim3(kCopyThreads), 0, launch_.stream, numbers);
  }

  const PackedWeight& weight(std::int64_t head) const {
    return products_.weights[static_cast<std::size_t>(head)];
  }

  GroupedArgs args_of(std::int64_t head, std::int64_t heads, std::int64_t row,
                      std::int64_t rows) const {
    const PackedWeight& like = weight(head);
    GroupedArgs args;
    args.num_matrices = 1;
    args.first_group = static_cast<std::int32_t>(head);
    args.num_groups = static_cast<std::int32_t>(heads);
    for (std::int64_t i = 0; i < heads; ++i) {
      args.panels[0][i] = weight(head + i).bytes().data();
    }
    args.panel_bytes = static_cast<std::int64_t>(panel_bytes(like.layout(), inputs_));
    args.inputs = inputs_;
    args.outputs = like.outputs();
    args.rows = static_cast<std::int32_t>(rows);
    args.tile_rows = static_cast<std::int32_t>(
        is_float_ ? kFloatTileRows : tile_rows_of(rows, has_wide_tiles(like.layout())));
    args.out[0] = products_.out + row * products_.out_stride + products_.copied;
    args.out_stride = products_.out_stride;
    args.out_group_stride = products_.out_head_stride;
    return args;
  }

  void multiply_floats(std::int64_t head, std::int64_t heads, std::int64_t rows) const {
    FloatInputs inputs = {
        .x = products_.x,
        .x_stride = products_.x_stride,
        .x_group_stride = products_.x_head_stride,
        .is_aligned = reinterpret_cast<std::uintptr_t>(products_.x) % sizeof(float4) == 0 &&
                      products_.x_stride % 4 == 0 && products_.x_head_stride % 4 == 0};
    if (weight(head).input_order() != nullptr) inputs.is_ordered[0] = 1;
    grouped_float_product(launch_, weight(head), args_of(head, heads, 0, rows), inputs);
  }

  void multiply(std::int64_t head, std::int64_t heads, std::int64_t row, std::int64_t rows) const {
    const FragmentForm form = fragment_form(weight(head).layout());
    HeadScratch scratch;
    Arena arena({launch_.workspace, launch_.workspace_bytes});
    scratch.lay_out(rows, heads, inputs_, [&]<typename T>(T*& array, std::int64_t count) {
      array = arena.array<T>(count);
    });
    if (!form.has_minimum) scratch.sums = nullptr;
    round_fragments(launch_,
                    products_.x + row * products_.x_stride + head * products_.x_head_stride,
                    heads == 1 ? products_.x_stride : products_.x_head_stride, rows * heads,
                    inputs_, weight(head).input_order(), form.places(), scratch.rounded,
                    {.sum_inputs = kGroupInputs, .values = scratch.sums});
    GroupedArgs args = args_of(head, heads, row, rows);
    args.x_step = heads;
    args.x_group_step = heads == 1 ? 0 : 1;
    grouped_product(launch_, weight(head).layout(), args,
                    {.x = scratch.rounded, .sums = scratch.sums, .rows = rows * heads});
  }

  Launch launch_;
  const HeadProducts& products_;
  std::int64_t num_heads_;
  std::int64_t inputs_;
  bool is_float_ = false;
  bool is_one_launch_ = true;
};

}  // namespace

std::uint64_t head_products_workspace_bytes(const StreamLimits& limits) {
  const HeadSizes& heads = limits.head_products;
  if (heads.num_heads == 0) return 0;
  const std::int64_t rows =
      std::min(limits.max_rows, head_rows_at_once(heads.num_heads, heads.max_inputs));
  return HeadScratch::bytes(rows, heads.num_heads, heads.max_inputs);
}

void matmul_by_head(const Launch& launch, std::int64_t rows, ActivationMode mode,
                    const HeadProducts& products) {
  if (rows == 0) return;
  HeadCall(launch, mode, products).compute(rows);
}

}  // namespace quire::cuda
