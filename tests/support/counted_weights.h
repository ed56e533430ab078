// Checkpoints whose weights are counted random numbers: each is a function of a seed, its tensor's
// name and its place in the tensor, so that a list of tensors stands for all of them.
// scripts/goldens/counted_weights.py makes the same numbers, bit for bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace quire::test {

// FNV-1a (draft-eastlake-fnv), 64 bits; `hash` is that of what comes before.
std::uint64_t fnv1a64(std::string_view bytes, std::uint64_t hash = 0xCBF29CE484222325ULL);

// A tensor of a list: numbers around `mean` with about the standard deviation `scale`.
struct CountedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  double scale = 0;
  double mean = 0;
};

// Element `index` of a tensor in row-major order, as bits of a bfloat16. It is the sum of four
// uniform numbers, nearly a normal one, and 0 below 2^-14, where a float16 would lose bits.
std::uint16_t counted_weight(const CountedTensor& tensor, std::uint64_t seed, std::uint64_t index);

// All elements of a tensor, little-endian bfloat16. Errors: sizes that overflow or are not
// positive.
Result<std::string> counted_bytes(const CountedTensor& tensor, std::uint64_t seed);

// A list of tensors, the text of a weights.json:
// {"seed": N, "fnv1a64": "16 hexadecimal digits", "tensors": [[name, shape, scale, mean], ...]}
struct CountedWeights {
  std::uint64_t seed = 0;
  std::string fnv1a64;  // of all tensors' bytes, in the order of the list
  std::vector<CountedTensor> tensors;
};
Result<CountedWeights> read_counted_weights(const JsonReader& list);

// Writes `weights` as a safetensors file. An error if their bytes are not those that the list was
// made of.
Status write_counted_safetensors(const CountedWeights& weights, const std::filesystem::path& file);

}  // namespace quire::test
