// The model that drafts for another one, where EngineArgs::speculation names one.
#pragma once

#include <memory>
#include <optional>

#include "draft/drafter.h"
#include "engine/engine_sizing.h"
#include "kernels/device.h"
#include "load/model_bundle.h"
#include "models/tensor_loader.h"

namespace quire {

// Opens it; nullopt where no model drafts. Besides the errors of open_model(), kConfig where the
// two do not have the same tokens: a guess is an id, and must mean the same to both.
Result<std::optional<ModelBundle>> open_draft_model(const EngineArgs& args,
                                                    const ModelBundle& bundle);

// Loads it. `device` must outlive it, and nobody may compute on it while guesses are made.
Result<std::unique_ptr<Drafter>> load_draft_model(const ModelBundle& draft, const DraftSizes& sizes,
                                                  std::int64_t vocab_size, Device& device,
                                                  const LoadProgress& progress);

}  // namespace quire
