#include "weights/module_parts.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "quant/group_row.h"
#include "weights/quantized_modules.h"

namespace quire {

Status wrong_part(const TensorInfo& tensor, const std::string& what) {
  return Status::bad_model(
      fmt::format("{}: tensor {}: {}", tensor.file, printable(tensor.name), what),
      "fetch or convert the model again");
}

std::string ModuleParts::name_of(std::string_view part) const {
  return fmt::format("{}.{}", module_name(codes_), part);
}

const TensorInfo* ModuleParts::find(std::string_view part) {
  const TensorInfo* tensor = source_.find(name_of(part));
  if (tensor != nullptr) found_.push_back(tensor);
  return tensor;
}

Result<const TensorInfo*> ModuleParts::get(std::string_view part) {
  const TensorInfo* tensor = find(part);
  if (tensor != nullptr) return tensor;
  return Status::bad_model(fmt::format("{}: tensor {} is missing, beside {}", codes_.file,
                                       printable(name_of(part)), printable(codes_.name)),
                           "fetch the model again; all parts of a matrix must be there");
}

Status expect_part(const TensorInfo& tensor, Encoding encoding,
                   const std::vector<std::int64_t>& shape) {
  if (tensor.encoding == encoding && tensor.shape == shape) return {};
  return wrong_part(
      tensor, fmt::format("expected {} of [{}], found {} of [{}]", encoding_traits(encoding).name,
                          fmt::join(shape, ", "), encoding_traits(tensor.encoding).name,
                          fmt::join(tensor.shape, ", ")));
}

Status expect_floats(const TensorInfo& tensor, const std::vector<std::int64_t>& shape) {
  const bool floats = tensor.encoding == Encoding::kF32 || tensor.encoding == Encoding::kF16 ||
                      tensor.encoding == Encoding::kBF16;
  return expect_part(tensor, floats ? tensor.encoding : Encoding::kF16, shape);
}

Status expect_matrix(const TensorInfo& tensor, Encoding encoding) {
  const bool fits = tensor.encoding == encoding && tensor.shape.size() == 2 &&
                    std::ranges::all_of(tensor.shape, [](std::int64_t size) {
                      return size > 0 && size < kMaxPartSize;
                    });
  if (fits) return {};
  return wrong_part(
      tensor,
      fmt::format("expected a matrix of {}, found {} of [{}]", encoding_traits(encoding).name,
                  encoding_traits(tensor.encoding).name, fmt::join(tensor.shape, ", ")));
}

Status set_span(const TensorInfo& scales, std::int64_t spans, GroupedTensor& matrix) {
  if (spans < 1 || matrix.cols % spans != 0) {
    return wrong_part(scales, fmt::format("{} groups do not divide {} inputs", spans, matrix.cols));
  }
  matrix.span = matrix.cols / spans;
  if (matrix.span % kGroupSize == 0) return {};
  return Status::unimplemented(fmt::format("{}: tensor {}: groups of {} inputs are not supported",
                                           scales.file, printable(scales.name), matrix.span),
                               "use a checkpoint with groups of a multiple of 32 inputs");
}

void set_scales(const TensorInfo& scales, std::int64_t row_stride, std::int64_t span_stride,
                GroupedTensor& matrix) {
  matrix.scales = scales.data.data();
  matrix.scale_encoding = scales.encoding;
  matrix.scale_row_stride = row_stride;
  matrix.scale_span_stride = span_stride;
}

Status set_byte_codes(const TensorInfo& codes, GroupedTensor& matrix) {
  matrix.rows = codes.shape[0];
  matrix.cols = codes.shape[1];
  if (matrix.cols % kGroupSize != 0) {
    return wrong_part(codes, fmt::format("{} inputs are not a multiple of 32", matrix.cols));
  }
  matrix.codes = {
      .data = codes.data.data(), .bits = 8, .along = PackedAlong::kBytes, .stride = matrix.cols};
  matrix.codes_by_input = false;
  matrix.is_signed = true;
  return {};
}

Status set_order(const TensorInfo& index, GroupedTensor& matrix) {
  QUIRE_RETURN_IF_ERROR(expect_part(index, Encoding::kI32, {matrix.cols}));
  const std::int64_t spans = matrix.cols / matrix.span;
  std::vector<std::int32_t> span_of(static_cast<std::size_t>(matrix.cols));
  std::memcpy(span_of.data(), index.data.data(), index.data.size());
  std::vector<std::int64_t> counts(static_cast<std::size_t>(spans));
  for (const std::int32_t span : span_of) {
    if (span < 0 || span >= spans) {
      return wrong_part(index, fmt::format("group {} of {}", span, spans));
    }
    ++counts[static_cast<std::size_t>(span)];
  }
  for (std::int64_t span = 0; span < spans; ++span) {
    const std::int64_t count = counts[static_cast<std::size_t>(span)];
    if (count != matrix.span) {
      return wrong_part(
          index, fmt::format("group {} has {} inputs; expected {}", span, count, matrix.span));
    }
  }
  if (std::ranges::is_sorted(span_of)) return {};
  matrix.order.resize(span_of.size());
  std::iota(matrix.order.begin(), matrix.order.end(), 0);
  std::ranges::stable_sort(matrix.order, {}, [&](std::int32_t input) {
    return span_of[static_cast<std::size_t>(input)];
  });
  return {};
}

std::string groups_text(std::int64_t span, std::int64_t cols) {
  return span == cols ? "one scale a row" : fmt::format("groups of {}", span);
}

std::string groups_text(const GroupedTensor& matrix) {
  const std::string groups = groups_text(matrix.span, matrix.cols);
  return matrix.order.empty() ? groups : groups + ", by activation order";
}

}  // namespace quire
