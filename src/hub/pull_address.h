// Getting a model from an address of the web, or from a bucket of an S3-compatible store.
#pragma once

#include <filesystem>
#include <optional>

#include "base/status.h"
#include "hub/pull.h"

namespace quire {

// A kUrl or kS3 model that was fetched whole.
std::optional<std::filesystem::path> find_address(const ModelLocator& model,
                                                  const HubSettings& settings);

// As pull() says, for a kUrl or kS3 model. Such servers have no hash of a file to check: sizes are,
// and every piece has to be of the same entity tag. Errors name the server.
Result<PulledModel> pull_address(const ModelLocator& model, const HubSettings& settings,
                                 const PullListener& listener);

// As pull_gguf_headers() says, for a kUrl or kS3 model.
Result<std::optional<std::filesystem::path>> pull_address_headers(
    const ModelLocator& model, const HubSettings& settings, const PullListener& listener,
    const std::filesystem::path& folder);

}  // namespace quire
