// Reading of tests/data, and how far computed numbers are from those in it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/ids.h"
#include "base/json.h"

namespace quire::test {

inline json::value golden(const std::string& path) {
  auto value = read_json_file(QUIRE_SOURCE_DIR "/tests/data/" + path, 1U << 24);
  EXPECT_TRUE(value.ok()) << value.status().to_string();
  return value.ok() ? *std::move(value) : json::value();
}

inline std::vector<float> golden_floats(const std::string& path) {
  const auto bytes = read_file(QUIRE_SOURCE_DIR "/tests/data/" + path, 1U << 24);
  EXPECT_TRUE(bytes.ok()) << bytes.status().to_string();
  std::vector<float> values(bytes.ok() ? bytes->size() / sizeof(float) : 0);
  if (bytes.ok()) std::memcpy(values.data(), bytes->data(), values.size() * sizeof(float));
  return values;
}

inline std::vector<TokenId> token_ids(const json::value& array) {
  std::vector<TokenId> result;
  for (const json::value& id : array.as_array()) {
    result.push_back(static_cast<TokenId>(id.as_int64()));
  }
  return result;
}

// Infinite where a number is not one.
inline float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::fabs(a[i] - b[i]));
    if (std::isnan(a[i])) return INFINITY;
  }
  return largest;
}

}  // namespace quire::test
