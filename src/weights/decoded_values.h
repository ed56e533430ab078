// For tests: what a tensor of a source stands for.
#pragma once

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "quant/encoding.h"
#include "tensor/thread_pool.h"
#include "weights/weight_source.h"

namespace quire {

// A matrix, or several of them one behind the other, as floats; none where it cannot be read, which
// fails the test.
inline std::vector<float> decoded_values(const WeightSource& source, const TensorInfo& tensor) {
  ThreadPool pool(2);
  const auto rows = source.rows(tensor, pool);
  EXPECT_TRUE(rows.ok()) << rows.status().to_string();
  if (!rows.ok()) return {};
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  const std::int64_t cols = tensor.shape.back();
  const std::uint64_t row_bytes = *encoded_row_bytes(tensor.encoding, cols);
  std::vector<float> values(static_cast<std::size_t>(count));
  const std::uint8_t* row = rows->data;
  for (std::int64_t at = 0; at < count; at += cols, row += row_bytes) {
    decode_row(tensor.encoding, row, cols, &values[static_cast<std::size_t>(at)]);
  }
  return values;
}

}  // namespace quire
