// What computes guesses, as it lies on disk.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "load/model_bundle.h"
#include "models/medusa.h"

namespace quire {

// A model, or layers that read another's states; or heads, of which the bundle has the files and
// the weights alone.
struct DraftBundle : ModelBundle {
  std::optional<MedusaSpec> medusa = {};
  std::vector<std::int32_t> inner_layers = {};  // Eagle3Spec's
  std::vector<TokenId> token_map = {};          // ModelRunnerConfig's
};

}  // namespace quire
