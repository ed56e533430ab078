#include "kernels/cuda/products/tensor_maps.h"

#include <algorithm>
#include <cassert>
#include <cuda_runtime_api.h>

namespace quire::cuda {
namespace {

// The driver's function, which the runtime finds: nothing is linked with the driver.
decltype(&cuTensorMapEncodeTiled) find_map_encoder() {
  constexpr unsigned int kFirstVersion = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  (void)cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kFirstVersion,
                                         cudaEnableDefault, &found);
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

// Dimensions from the innermost on, of which that one is contiguous.
struct MappedTensor {
  CUtensorMapDataType type;
  const void* data;
  std::uint32_t dimensions;
  cuuint64_t sizes[3];
  cuuint64_t strides[2];  // of all but the first, in bytes
  cuuint32_t box[3];
  CUtensorMapSwizzle swizzle;
};

CUtensorMap encode_map(const MappedTensor& tensor) {
  static const auto encoder = find_map_encoder();
  const cuuint32_t steps[] = {1, 1, 1};
  CUtensorMap map = {};
  const CUresult result =
      encoder(&map, tensor.type, tensor.dimensions, const_cast<void*>(tensor.data), tensor.sizes,
              tensor.strides, tensor.box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, tensor.swizzle,
              CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  assert(result == CUDA_SUCCESS);
  (void)result;
  return map;
}

cuuint64_t mapped_size(std::int64_t size) { return static_cast<cuuint64_t>(size); }

}  // namespace

CUtensorMap bf16_rows_map(const std::uint16_t* x, std::int64_t rows, std::int64_t columns,
                          std::uint32_t box_rows) {
  return encode_map({.type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                     .data = x,
                     .dimensions = 2,
                     .sizes = {mapped_size(columns), mapped_size(rows)},
                     .strides = {mapped_size(columns) * sizeof(*x)},
                     .box = {64, box_rows},
                     .swizzle = CU_TENSOR_MAP_SWIZZLE_128B});
}

CUtensorMap float_rows_map(float* out, std::int64_t rows, std::int64_t columns,
                           std::int64_t stride) {
  return encode_map({.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                     .data = out,
                     .dimensions = 2,
                     .sizes = {mapped_size(columns), mapped_size(rows)},
                     .strides = {mapped_size(stride) * sizeof(*out)},
                     .box = {kFloatBox, kFloatBox},
                     .swizzle = CU_TENSOR_MAP_SWIZZLE_128B});
}

bool has_float_rows_map(const float* out, std::int64_t columns, std::int64_t stride) {
  constexpr std::int64_t kPiece = 4;  // floats
  return columns % kPiece == 0 && stride % kPiece == 0 &&
         reinterpret_cast<std::uintptr_t>(out) % (kPiece * sizeof(float)) == 0;
}

CUtensorMap panels_map(const PanelUnits& units, std::uint32_t box_units, std::uint32_t box_panels) {
  constexpr std::int64_t kElementBytes = 8;  // the largest there is: boxes have 256 at most
  return encode_map(
      {.type = CU_TENSOR_MAP_DATA_TYPE_INT64,
       .data = units.bytes,
       .dimensions = 3,
       .sizes = {mapped_size(units.unit_bytes / kElementBytes),
                 mapped_size(std::max<std::int64_t>(units.units, 1)), mapped_size(units.panels)},
       .strides = {mapped_size(units.unit_bytes), mapped_size(units.panel_bytes)},
       .box = {static_cast<cuuint32_t>(units.unit_bytes / kElementBytes), box_units, box_panels},
       .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE});
}

}  // namespace quire::cuda
