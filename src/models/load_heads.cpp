// The parts of TensorLoader that read the matrices of latent attention.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "models/tensor_loader.h"

namespace quire {
namespace {

// Bytes of one number of an encoding without blocks; 0 for others.
std::size_t number_bytes(Encoding encoding) {
  switch (encoding) {
    case Encoding::kF32:
      return 4;
    case Encoding::kF16:
    case Encoding::kBF16:
      return 2;
    default:
      return 0;
  }
}

// `to` [cols][rows] = `from` [rows][cols] transposed, of numbers of `bytes` bytes.
void transpose_numbers(const std::uint8_t* from, std::int64_t rows, std::int64_t cols,
                       std::size_t bytes, std::uint8_t* to) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col, from += bytes) {
      std::memcpy(to + static_cast<std::size_t>(col * rows + row) * bytes, from, bytes);
    }
  }
}

}  // namespace

Result<PackedWeight> TensorLoader::turned_matrix(TensorRole role, std::int64_t count,
                                                 std::int64_t layer) {
  const TensorInfo& tensor = *find(role, layer);
  const Rows parts[] = {{.tensor = &tensor, .first = count, .count = tensor.shape[0] - count},
                        {.tensor = &tensor, .count = count}};
  auto packed = packed_matrix(tensor.name, parts);
  report(tensor);
  return packed;
}

Result<DeviceFloats> TensorLoader::turned_vector(TensorRole role, std::int64_t count,
                                                 std::int64_t layer) {
  QUIRE_ASSIGN_OR_RETURN(auto numbers, values({role}, layer));
  if (!numbers.empty()) std::rotate(numbers.begin(), numbers.begin() + count, numbers.end());
  return device_->upload(std::move(numbers));
}

Result<HeadMatrices> TensorLoader::matrices_of_heads(TensorRole role, std::int64_t num_heads,
                                                     std::int64_t transposed_rows,
                                                     std::int64_t layer) {
  const TensorInfo& tensor = *find(role, layer);
  const std::size_t bytes = number_bytes(tensor.encoding);
  if (bytes == 0) {
    return Status::unimplemented(
        fmt::format(
            "{}: tensor {} is {}; latent attention transposes it, and so wants numbers that "
            "stand for themselves",
            tensor.file, printable(tensor.name), tensor.format_name()),
        "use a checkpoint that has it as F32, F16 or BF16");
  }
  const std::int64_t cols = tensor.shape[1];
  const std::int64_t rows = tensor.shape[0] / num_heads;
  const auto head_bytes = static_cast<std::size_t>(rows * cols) * bytes;
  const auto transposed_bytes = static_cast<std::size_t>(transposed_rows * cols) * bytes;
  std::vector<std::uint8_t> turned(static_cast<std::size_t>(num_heads) * transposed_bytes);
  std::vector<Rows> transposed;
  std::vector<Rows> others;
  for (std::int64_t head = 0; head < num_heads; ++head) {
    const auto index = static_cast<std::size_t>(head);
    std::uint8_t* const to = turned.data() + index * transposed_bytes;
    transpose_numbers(tensor.data.data() + index * head_bytes, transposed_rows, cols, bytes, to);
    transposed.push_back(
        {.tensor = &tensor, .count = cols, .made = to, .made_cols = transposed_rows});
    others.push_back({.tensor = &tensor,
                      .first = head * rows + transposed_rows,
                      .count = rows - transposed_rows});
  }
  HeadMatrices result;
  // What is packed from here is no part of the file that could be given back.
  const auto done = std::exchange(options_.done, {});
  auto packed = packed_alike("transposed head", transposed);
  options_.done = done;
  if (!packed.ok()) return packed.status();
  result.transposed = *std::move(packed);
  QUIRE_ASSIGN_OR_RETURN(result.others, packed_alike("head", others));
  report(tensor);
  return result;
}

}  // namespace quire
