#include "kernels/cpu/amx/matmul_amx.h"

#include "kernels/cpu/amx/matmul_bf16_tiles.h"
#include "kernels/cpu/amx/matmul_int_tiles.h"
#include "kernels/cpu/bf16_rows.inl.h"

namespace quire {
namespace {

template <WeightLayout kLayout>
void set_int_tiles(MatmulKernels& kernels) {
  constexpr auto kIndex = static_cast<int>(kLayout);
  kernels.many_with_int16_bytes[kIndex] = IntTiles<kLayout, true>::run;
  kernels.many_with_int8[kIndex] = IntTiles<kLayout, false>::run;
}

}  // namespace

void set_amx_matmul(MatmulKernels& kernels) {
  kernels.chunk_rows = 3 * kWideRows;  // a multiple of other kernels' block of rows, too
  kernels.with_bf16[static_cast<int>(WeightLayout::kBF16)] = bf16_tile_matmul;
  kernels.round_row_bf16 = round_row_bf16;
  set_int_tiles<WeightLayout::kInt8>(kernels);
  set_int_tiles<WeightLayout::kInt4>(kernels);
  set_int_tiles<WeightLayout::kInt5>(kernels);
  set_int_tiles<WeightLayout::kUint4>(kernels);
  set_int_tiles<WeightLayout::kUint5>(kernels);
  set_int_tiles<WeightLayout::kUint4Super>(kernels);
  set_int_tiles<WeightLayout::kUint5Super>(kernels);
  set_int_tiles<WeightLayout::kInt6Super>(kernels);
  set_int_tiles<WeightLayout::kInt8Row>(kernels);
  set_int_tiles<WeightLayout::kInt4Group128>(kernels);
  set_int_tiles<WeightLayout::kInt8Halves>(kernels);
  set_int_tiles<WeightLayout::kInt8HalvesMinimum>(kernels);
}

}  // namespace quire
