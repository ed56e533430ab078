// Getting a model of the Hugging Face hub into the cache that its tools share.
#pragma once

#include <filesystem>
#include <optional>

#include "base/status.h"
#include "hub/pull.h"

namespace quire {

struct FoundHubModel {
  std::filesystem::path path;
  std::string commit;
  std::vector<std::string> files;
  bool is_gguf = false;
};

// A kHub model in the cache, whole. kNotFound says what is missing; choose_files()' errors.
Result<FoundHubModel> find_hub_model(const ModelLocator& model, const HubSettings& settings);

// As pull() says, for a kHub model.
Result<PulledModel> pull_hub(const ModelLocator& model, const HubSettings& settings,
                             const PullListener& listener);

// As pull_config() says.
Result<std::optional<std::filesystem::path>> pull_hub_config(const ModelLocator& model,
                                                             const HubSettings& settings,
                                                             const PullListener& listener);

// As pull_gguf_headers() says, for a kHub model.
Result<std::optional<std::filesystem::path>> pull_hub_headers(const ModelLocator& model,
                                                              const HubSettings& settings,
                                                              const PullListener& listener,
                                                              const std::filesystem::path& folder);

}  // namespace quire
