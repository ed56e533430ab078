#include "weights/tensor_extent.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/checked.h"
#include "base/printable.h"

namespace quire {

std::optional<std::uint64_t> encoded_bytes(Encoding encoding, std::span<const std::int64_t> shape) {
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  auto bytes = encoded_row_bytes(encoding, shape.empty() ? 1 : shape.back());
  for (std::size_t i = 0; bytes && i + 1 < shape.size(); ++i) {
    bytes = checked_mul(*bytes, static_cast<std::uint64_t>(shape[i]));
  }
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (bytes && *bytes > kMax) return std::nullopt;
  return bytes;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::vector<const TensorInfo*> by_offset(std::span<const TensorInfo> tensors) {
  std::vector<const TensorInfo*> sorted;
  sorted.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) {
    if (!tensor.data.empty()) sorted.push_back(&tensor);
  }
  std::ranges::stable_sort(sorted, {}, &TensorInfo::file_offset);
  return sorted;
}

Status check_no_overlap(std::span<const TensorInfo* const> sorted) {
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const TensorInfo& before = *sorted[i - 1];
    const TensorInfo& tensor = *sorted[i];
    const std::uint64_t end = before.file_offset + before.data.size();
    if (tensor.file_offset < end) {
      return Status::bad_model(
          fmt::format("{}: tensor {} begins at byte {}, inside tensor {}, which ends at byte {}",
                      tensor.file, printable(tensor.name), tensor.file_offset,
                      printable(before.name), end),
          "fetch or convert the model again");
    }
  }
  return {};
}

Status tensor_truncated(std::string_view file, std::string_view tensor, std::uint64_t end,
                        std::uint64_t file_bytes) {
  return Status::bad_model(
      fmt::format("{}: truncated: tensor {} needs bytes up to {}, the file has {}", file,
                  printable(tensor), end, file_bytes),
      "fetch it again");
}

}  // namespace quire
