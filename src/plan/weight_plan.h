// What a model's weights will take in memory, from headers of files.
#pragma once

#include <cstdint>

#include "models/spec.h"
#include "quant/load_quantization.h"
#include "weights/weight_source.h"

namespace quire {

// Bytes of a model's weights as packed in memory: matrices in the layout of their encoding or of
// `quantization`, vectors and rotary tables in float32. `split`: of which the host has a part.
SplitBytes planned_weight_bytes(const DecoderSpec& spec, const WeightSource& source,
                                std::int64_t max_positions,
                                LoadQuantization quantization = LoadQuantization::kNone,
                                const LayerSplit& split = {});

}  // namespace quire
