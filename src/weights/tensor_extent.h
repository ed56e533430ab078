// Where tensors lie in a file, checked: sizes by overflow-checked arithmetic, and no byte that
// belongs to two of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "quant/encoding.h"
#include "weights/weight_source.h"

namespace quire {

// Bytes of a tensor of `shape` (dimensions >= 0): zero if a dimension is, nullopt if rows are not
// whole blocks or the size does not fit 63 bits.
std::optional<std::uint64_t> encoded_bytes(Encoding encoding, std::span<const std::int64_t> shape);

// "[49152, 576]".
std::string shape_text(std::span<const std::int64_t> shape);

// The tensors that have bytes, by their offset in the file; `tensors` must outlive the result.
std::vector<const TensorInfo*> by_offset(std::span<const TensorInfo> tensors);

// kBadModel naming two tensors that share bytes. `sorted` is by offset.
Status check_no_overlap(std::span<const TensorInfo* const> sorted);

// kBadModel saying that the file ends before `tensor` does (at byte `end`).
Status tensor_truncated(std::string_view file, std::string_view tensor, std::uint64_t end,
                        std::uint64_t file_bytes);

}  // namespace quire
