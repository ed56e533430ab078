// Layers that draft for a model and read its states: those that its own checkpoint has behind the
// last (multi-token prediction, MTP), and those of a checkpoint of their own (EAGLE).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "models/spec.h"

namespace quire {

// The layer behind the last of `model`, which is like the last. Names of tensors as DeepSeek-V3's
// checkpoint has them (its README_WEIGHTS.md), and GLM-4.5's; it shares the embedding and the
// output matrix with the model, of which the copies are not read. Errors: kConfig where there is
// none, kUnimplemented where there are several.
Result<DecoderSpec> mtp_spec(const DecoderSpec& model);

// EAGLE's layers by their config.json, which is a Llama's (Li et al. 2024; names of tensors as the
// published checkpoints of SafeAILab/EAGLE have them): no norm before the first layer's attention,
// none behind the last. `bias`: whether the checkpoint has `fc.bias`. Errors: kConfig where sizes
// are not those of `model`, kUnimplemented for another architecture, EAGLE-3's among them.
Result<DecoderSpec> eagle_spec(const JsonReader& config, const DecoderSpec& model, bool bias);

// EAGLE-3's layer (Li et al. 2025), in the layout of SafeAILab's published checkpoints (`midlayer`)
// or of vLLM's (`layers.0`).
struct Eagle3Spec {
  DecoderSpec decoder;  // vocab_size: of the tokens that it guesses
  // Of which layers of the model it reads the states that enter them, in ascending order.
  std::vector<std::int32_t> inner_layers;
};

// By its config.json, which is a Llama's. `midlayer`: whether the layer is called so. Errors:
// kConfig where sizes are not those of `model`, or it has no such layers, kUnimplemented for
// another architecture and for more than one layer.
Result<Eagle3Spec> eagle3_spec(const JsonReader& config, const DecoderSpec& model, bool midlayer);

// kConfig where the value of a checkpoint's key, a size, is not that of the model.
Status expect_size(const JsonReader& config, std::string_view key, std::int64_t value,
                   std::int64_t expected);

}  // namespace quire
