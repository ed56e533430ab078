// What computes guesses at a model's tokens, where EngineArgs::speculation asks for it: a model of
// its own, or layers or heads that read the model's states.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "draft/drafter.h"
#include "engine/draft_bundle.h"
#include "engine/engine_sizing.h"
#include "kernels/device.h"
#include "load/model_bundle.h"
#include "models/decoder_model.h"

namespace quire {

// Opens it; nullopt where nothing is computed. Besides the errors of open_model(), mtp_spec(),
// eagle_spec(), eagle3_spec() and medusa_spec(): kConfig where the two do not have the same tokens
// (a guess is an id, and must mean
// the same to both), and kBadModel where layers lack a tensor or have another.
Result<std::optional<DraftBundle>> open_draft_model(const EngineArgs& args,
                                                    const ModelBundle& bundle);

// Loads it, to draft for `model`, trees of the shape SpeculativeConfig::token_tree. `device` must
// outlive it, and nobody may compute on it while guesses are made.
Result<std::unique_ptr<Drafter>> load_draft_model(const DraftBundle& draft, const DraftSizes& sizes,
                                                  std::span<const std::int32_t> token_tree,
                                                  const Model& model, Device& device);

}  // namespace quire
