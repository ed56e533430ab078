// The scratch memory of one attention task, as floats:
//   queries [rows][stride] | weighted sums of values [rows][stride] | maxima [rows] | sums [rows] |
//   keys [tile][stride] | values [tile][stride]
// with rows = queries of a work item x query heads of a KV head, and stride = head_dim padded to
// whole 16-float vectors.
#pragma once

#include <cstdint>

namespace quire {

// Keys are visited in tiles at fixed absolute positions [0, 32), [32, 64), ..., so that the
// arithmetic for a query depends on its position alone.
inline constexpr std::int32_t kAttentionTileKeys = 32;

struct AttentionScratch {
  std::int64_t stride;      // floats of a padded head
  std::int64_t row_values;  // floats of maxima, and of sums
  std::int64_t total;       // floats in all

  [[gnu::always_inline]] AttentionScratch(std::int64_t head_dim, std::int64_t rows)
      : stride((head_dim + 15) / 16 * 16),
        row_values((rows + 15) / 16 * 16),
        total(2 * rows * stride + 2 * row_values +
              2 * (std::int64_t{kAttentionTileKeys} * stride)) {}
};

}  // namespace quire
