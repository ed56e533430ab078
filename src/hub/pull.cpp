#include "hub/pull.h"

#include "hub/pull_address.h"
#include "hub/pull_hub.h"

namespace quire {

std::optional<std::filesystem::path> find_pulled(const ModelLocator& model,
                                                 const HubSettings& settings) {
  switch (model.kind) {
    case ModelLocator::Kind::kPath:
      return model.path;
    case ModelLocator::Kind::kHub: {
      const auto found = find_hub_model(model, settings);
      if (!found.ok()) return std::nullopt;
      // Whether a repository has safetensors beside its GGUF files, which go first, it alone knows.
      if (found->is_gguf && model.file.empty()) return std::nullopt;
      return found->path;
    }
    case ModelLocator::Kind::kUrl:
    case ModelLocator::Kind::kS3:
      break;
  }
  return find_address(model, settings);
}

Result<PulledModel> pull(const ModelLocator& model, const HubSettings& settings,
                         const PullListener& listener) {
  switch (model.kind) {
    case ModelLocator::Kind::kPath:
      return Status::invalid_argument("a path is here already: there is nothing to pull",
                                      "give ORG/NAME, or an address");
    case ModelLocator::Kind::kHub:
      return pull_hub(model, settings, listener);
    case ModelLocator::Kind::kUrl:
    case ModelLocator::Kind::kS3:
      break;
  }
  return pull_address(model, settings, listener);
}

Result<std::optional<std::filesystem::path>> pull_config(const ModelLocator& model,
                                                         const HubSettings& settings,
                                                         const PullListener& listener) {
  if (model.kind != ModelLocator::Kind::kHub || settings.offline) {
    return std::optional<std::filesystem::path>();
  }
  return pull_hub_config(model, settings, listener);
}

Result<std::optional<std::filesystem::path>> pull_gguf_headers(
    const ModelLocator& model, const HubSettings& settings, const PullListener& listener,
    const std::filesystem::path& folder) {
  if (model.kind == ModelLocator::Kind::kPath || settings.offline) {
    return std::optional<std::filesystem::path>();
  }
  if (model.kind == ModelLocator::Kind::kHub) {
    return pull_hub_headers(model, settings, listener, folder);
  }
  return pull_address_headers(model, settings, listener, folder);
}

}  // namespace quire
