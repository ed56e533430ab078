// The rows of sines and cosines that some models add to their embeddings by position.
#pragma once

#include <cstdint>
#include <vector>

namespace quire {

// Rows of positions 0 to num_positions - 1, [num_positions][width]: sin(p f(i)) of all i below
// width / 2, then cos(p f(i)), with p the position plus `offset` and f(i) = 10000^(-i / (width / 2
// - 1)), as tensor2tensor has them (Vaswani et al. 2017 interleave the two). In float32, as the
// models were trained with. width: even, 4 or more.
std::vector<float> sinusoidal_rows(std::int64_t num_positions, std::int64_t width,
                                   std::int64_t offset);

}  // namespace quire
