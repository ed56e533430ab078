// What the processor computes of a model that a GPU computes: --n-gpu-layers and --n-cpu-moe.
#pragma once

#include "base/status.h"
#include "engine/api.h"
#include "engine/compute_device.h"
#include "models/spec.h"

namespace quire {

// As llama.cpp counts: of a model of n layers, the output counts as one more, behind the last; the
// last `n_gpu_layers` of these n + 1 are the GPU's, and as many as there are if it is more. Where
// the first layer is the processor's, so are the embeddings. kConfig where there is no GPU or the
// model has no experts, or another setting needs all layers in one place; kUnimplemented where a
// layer of the GPU's would read keys and values that the processor has.
Result<LayerSplit> layer_split(const EngineArgs& args, const DecoderSpec& spec,
                               const ComputeDevice& device);

}  // namespace quire
