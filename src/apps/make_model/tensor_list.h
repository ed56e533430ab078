// The tensors of a made-up model: names and sizes of either format, how each is encoded, and what
// its numbers are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/make_model/model_shape.h"
#include "base/status.h"
#include "quant/encoding.h"

namespace quire {

enum class ModelFormat : std::uint8_t { kHuggingFace, kGguf };

// Of every `period` rows of the source, `rows` from `first` on, or, transposed, the columns of
// `first` and those after it.
struct RowsOfSource {
  std::int64_t rows = 0;
  std::int64_t period = 0;  // 0: all rows, from `first` on
  std::int64_t first = 0;
  bool transposed = false;
};

// "f32", "f16", "bf16" in both formats; "q8_0", "q4_0", "q4_1", "q4_k_m" in GGUF. As in published
// files, the logits' matrix of 4-bit models has a wider encoding, q4_k_m mixes Q4_K and Q6_K, and
// rows that are no multiple of 256 get an encoding of blocks of 32 in place of a K encoding.
struct MadeTensor {
  std::string name;
  Encoding encoding = Encoding::kF32;
  std::int64_t rows = 1;
  std::int64_t cols = 0;
  bool is_vector = false;  // one dimension: `cols`
  // Not empty: the numbers themselves. Otherwise random ones.
  std::vector<float> values = {};
  // Which random numbers: the same in every format and encoding, so that all of them are one model.
  std::uint64_t stream = 0;
  // GGUF orders the rows of q and k so that rotated pairs lie side by side: rows of a head; 0: no.
  std::int64_t interleaved_head_rows = 0;
  // Rows of the source from here on are zeros.
  std::int64_t zeros_from = 0;
  // More than one: so many matrices of one size, one after the other; `rows` is of all.
  std::int64_t matrices = 1;
  // Where the source has more rows: which are these.
  RowsOfSource part = {};

  std::uint64_t bytes() const;
  // The row of the source that is row `row` here, or, transposed, of which column 0 is its first
  // number. The source is the Hugging Face layout's matrix, with those of all experts as one.
  std::int64_t source_row(std::int64_t row) const;
};

// In the file's order. Control tokens have rows of zeros in the logits' matrix: their logit is 0,
// which is never the largest of thousands, so that no output ends early. Errors: kInvalidArgument
// naming the encodings of the format.
Result<std::vector<MadeTensor>> list_tensors(const ModelShape& shape, ModelFormat format,
                                             std::string_view encoding,
                                             std::int64_t num_control_tokens);

// Random weights of `tensor`'s row `row`: bell-shaped (a sum of four uniform numbers), standard
// deviation 0.02, a function of the seed, the tensor's stream and the position alone.
void random_row(std::uint64_t seed, const MadeTensor& tensor, std::int64_t row, float* out);

}  // namespace quire
