// What was made from a checkpoint is of no use for another.
#pragma once

#include <string>

#include "weights/weight_source.h"

namespace quire {

// The files that the tensors come from as they are now, in words: their names, sizes and times of
// writing.
std::string checkpoint_state(const WeightSource& source);

}  // namespace quire
