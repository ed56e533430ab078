// GGUF files of checkpoints as llama.cpp's own converter writes them, made again from what is
// committed of each: a gguf.json of scripts/goldens/gguf_forms.py with the keys, and where in the
// checkpoint the numbers of each tensor come from. Of the two sides neither knows what a family's
// tensors are called in GGUF, or in which order their rows are.
#pragma once

#include <filesystem>

#include "base/json.h"
#include "base/status.h"
#include "weights/weight_source.h"

namespace quire::test {

// Writes `file` from `source`, the tensors of the Hugging Face checkpoint. `recipe` is the contents
// of a gguf.json:
// {"fnv1a64": "16 hexadecimal digits", "keys": [[name, type, value], ...], "tensors": [...]}, each
// tensor {"name", "type": "F16" or "F32", "shape"} and either "numbers", or "rows" of "width"
// numbers to which "add" is added: [tensor, first, [[step, count], ...]] stands for the rows
// first + i * step of each pair, the last of them outermost; "NAME^T" is a tensor whose last two
// dimensions are exchanged. `tokenizer` has the keys of the vocabulary. An error if the bytes of
// the tensors are not those that the converter wrote.
Status write_gguf(const JsonReader& recipe, const JsonReader& tokenizer, const WeightSource& source,
                  const std::filesystem::path& file);

}  // namespace quire::test
