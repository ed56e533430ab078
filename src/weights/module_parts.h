// What readers of quantized matrices share: finding the tensors of one, checking their types and
// shapes, and describing where their scales are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "quant/grouped_tensor.h"
#include "weights/weight_source.h"

namespace quire {

// Larger sizes are wrong, and their products need no more care.
inline constexpr std::int64_t kMaxPartSize = std::int64_t{1} << 30;

// Collects the tensors of the module that `codes` belongs to, which is the first of them.
class ModuleParts {
 public:
  ModuleParts(const WeightSource& source, const TensorInfo& codes)
      : source_(source), codes_(codes), found_{&codes} {}

  const TensorInfo* find(std::string_view part);         // nullptr if absent
  Result<const TensorInfo*> get(std::string_view part);  // kBadModel if absent
  std::vector<const TensorInfo*> take() { return std::move(found_); }

 private:
  std::string name_of(std::string_view part) const;

  const WeightSource& source_;
  const TensorInfo& codes_;
  std::vector<const TensorInfo*> found_;
};

// kBadModel: "FILE: tensor NAME: WHAT".
Status wrong_part(const TensorInfo& tensor, const std::string& what);

// kBadModel, with what was found, for another type or shape.
Status expect_part(const TensorInfo& tensor, Encoding encoding,
                   const std::vector<std::int64_t>& shape);
// Of F16, BF16 or F32.
Status expect_floats(const TensorInfo& tensor, const std::vector<std::int64_t>& shape);
// Of any sizes that are none too large.
Status expect_matrix(const TensorInfo& tensor, Encoding encoding);

// Words of 32 bits for `count` integers.
constexpr std::int64_t words_of(std::int64_t count, int bits) { return (count * bits + 31) / 32; }

// Sets the span from the number of them. kBadModel where they do not divide the inputs,
// kUnimplemented for spans that no layout has.
Status set_span(const TensorInfo& scales, std::int64_t spans, GroupedTensor& matrix);
void set_scales(const TensorInfo& scales, std::int64_t row_stride, std::int64_t span_stride,
                GroupedTensor& matrix);

// Codes [outputs][inputs] of signed bytes: sizes and codes. kBadModel for inputs that are no whole
// groups.
Status set_byte_codes(const TensorInfo& codes, GroupedTensor& matrix);

// From the span of each input, `index`: inputs of a span become neighbours. kBadModel for spans
// that there are not, and where one has more inputs than another.
Status set_order(const TensorInfo& index, GroupedTensor& matrix);

// "groups of 128", for messages: of `span` inputs of `cols`.
std::string groups_text(std::int64_t span, std::int64_t cols);
std::string groups_text(const GroupedTensor& matrix);

}  // namespace quire
