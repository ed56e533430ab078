// The numbers that codes of codebooks stand for (quant/codebook_groups.h), on the device.
#pragma once

#include <cstdint>

#include "kernels/codebook_panel.h"

namespace quire::cuda {

__device__ inline float float_at(const std::uint8_t* from) {
  return *reinterpret_cast<const float*>(from);
}

// Of NF4 and of FP4: codebook_table().
static __device__ const float kCodebookValues[2][16] = {
    {-1.0F, -0.6961928009986877F, -0.5250730514526367F, -0.39491748809814453F,
     -0.28444138169288635F, -0.18477343022823334F, -0.09105003625154495F, 0.0F,
     0.07958029955625534F, 0.16093020141124725F, 0.24611230194568634F, 0.33791524171829224F,
     0.44070982933044434F, 0.5626170039176941F, 0.7229568362236023F, 1.0F},
    {0.0F, 0.0625F / 12.0F, 8.0F / 12.0F, 1.0F, 4.0F / 12.0F, 0.5F, 2.0F / 12.0F, 0.25F, 0.0F,
     -0.0625F / 12.0F, -8.0F / 12.0F, -1.0F, -4.0F / 12.0F, -0.5F, -2.0F / 12.0F, -0.25F}};

// kNestedScales[byte]: of each sign and power of ten the middles of 1, 2, 4, ... 64 equal parts of
// its last nine tenths, zero, and one. Rounded to float32 as the table is: its author's ends of
// parts are multiples of a step, added by fma to whichever end of the range is nearer.
__device__ inline float nested_scale(std::uint32_t byte) {
  constexpr float kPowersOfTen[] = {1e-6F, 1e-5F, 1e-4F, 1e-3F, 1e-2F, 1e-1F, 1.0F};
  if (byte == 127) return 0.0F;
  if (byte == 255) return 1.0F;
  const int place = abs(static_cast<int>(byte) - 127);  // 1 to 127
  const int power = 31 - __clz(place);
  const int parts = 1 << power;
  const int part = place - parts;
  const float step = (1.0F - 0.1F) / static_cast<float>(parts);
  const auto end_of = [&](int i) {
    return i <= parts / 2 ? fmaf(step, static_cast<float>(i), 0.1F)
                          : fmaf(-step, static_cast<float>(parts - i), 1.0F);
  };
  const float middle = __fmul_rn(__fadd_rn(end_of(part), end_of(part + 1)), 0.5F);
  const float scale = __fmul_rn(middle, kPowersOfTen[power]);
  return byte < 127 ? -scale : scale;
}

// The scale that a byte of a nested panel stands for, which ends with `tail`, in span `span` of all
// its rows: with two roundings, as CodebookPanel::scale().
__device__ inline float nested_span_scale(const std::uint8_t* tail, std::uint32_t byte,
                                          std::int64_t span) {
  const NestedPlace place = {
      *reinterpret_cast<const std::uint32_t*>(tail + CodebookPanel::kPlaceOffset)};
  const std::int64_t unit = place.unit_of(span);
  const float product =
      __fmul_rn(nested_scale(byte), float_at(tail + CodebookPanel::kUnitsOffset + 4 * unit));
  return __fadd_rn(product, float_at(tail));
}

// CodebookPanel::scale().
__device__ inline float codebook_scale(const CodebookPanel& book, const std::uint8_t* panel,
                                       std::int64_t inputs, std::int64_t group, int n) {
  const std::uint8_t* scales = panel + book.scales_offset(group);
  if (!book.nested) return float_at(scales + 4 * n);
  return nested_span_scale(panel + book.tail_offset(inputs), scales[n],
                           n * book.row_spans(inputs) + (group >> book.span_shift));
}

}  // namespace quire::cuda
