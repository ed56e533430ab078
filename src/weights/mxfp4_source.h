// A checkpoint of gpt-oss as it is published: what lies in `NAME_blocks`, [experts][outputs][inputs
// / 32][16] bytes, and `NAME_scales`, [experts][outputs][inputs / 32] bytes, is found as one tensor
// NAME of MXFP4, [experts][outputs][inputs], and read row by row. A byte of blocks has two
// neighbours, the first in its low half; a scale s stands for 2^(s - 127) (OCP Microscaling Formats
// 1.0; transformers, integrations/mxfp4.py).
#pragma once

#include <memory>

#include "base/status.h"
#include "weights/weight_source.h"

namespace quire {

// All other tensors are as in `source`, in its order. Every shape and type is checked here; rows()
// of the result reads values. Errors name file, tensor, expected and found: kBadModel for parts
// that are missing or do not fit each other, and, from rows(), for scales that are no number or
// that float32 cannot express.
Result<std::unique_ptr<WeightSource>> open_mxfp4(std::unique_ptr<WeightSource> source);

}  // namespace quire
