#include "apps/bundled_model.h"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace quire {

Result<std::string> bundled_model() {
  const std::string relative = "models/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf";
  for (const std::filesystem::path root : {QUIRE_MODEL_ROOT, "."}) {
    std::error_code error;
    if (std::filesystem::exists(root / relative, error)) return (root / relative).string();
  }
  return Status::not_found(
      fmt::format("no model is named, and the bundled one is not at {}",
                  (std::filesystem::path(QUIRE_MODEL_ROOT) / relative).string()),
      "name a model with --model, or fetch the bundled one: `make model` in Quire's source tree");
}

}  // namespace quire
