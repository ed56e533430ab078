// Descriptions of matrices that the Tensor Memory Accelerator copies boxes of.
#pragma once

#include <cstdint>
#include <cuda.h>

namespace quire::cuda {

// x: [rows][columns] bfloat16, rows aligned to 16 bytes. Boxes are 64 columns of `box_rows` rows,
// at most 256, in the 128-byte swizzle.
CUtensorMap bf16_rows_map(const std::uint16_t* x, std::int64_t rows, std::int64_t columns,
                          std::uint32_t box_rows);

// out: [rows][stride] floats, `columns` of each row. Boxes are 32 columns of 32 rows, in the
// 128-byte swizzle.
inline constexpr std::int32_t kFloatBox = 32;
CUtensorMap float_rows_map(float* out, std::int64_t rows, std::int64_t columns,
                           std::int64_t stride);
// Whether there is such a map. Boxes are copied to memory in pieces of 16 bytes.
bool has_float_rows_map(const float* out, std::int64_t columns, std::int64_t stride);

// What panels of a packed matrix have in common: units of `unit_bytes`, a multiple of 16 and at
// most 2048, of which the matrix has `units` whole ones a panel from `bytes` on.
struct PanelUnits {
  const std::uint8_t* bytes = nullptr;
  std::int64_t panels = 0;
  std::int64_t panel_bytes = 0;
  std::int64_t units = 0;
  std::int64_t unit_bytes = 0;
};

// Boxes are `box_units` whole units, one after the other, of `box_panels` panels; their first is at
// (0, unit, panel).
CUtensorMap panels_map(const PanelUnits& units, std::uint32_t box_units, std::uint32_t box_panels);

}  // namespace quire::cuda
