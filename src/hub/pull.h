// Getting a model onto this machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "hub/hub_settings.h"
#include "hub/model_locator.h"

namespace quire {

struct PullListener {
  // Of all files together; `file` is the one that comes now.
  std::function<void(const std::string& file, std::uint64_t done, std::uint64_t total)> progress;
  std::function<bool()> cancelled;
  std::function<void(const std::string& text)> note;  // one line for people
};

struct PulledModel {
  std::filesystem::path path;  // what to open: a folder or a .gguf file
  std::string commit;          // of a hub's model
  std::vector<std::string> files;
  std::uint64_t bytes = 0;       // of all files
  std::uint64_t downloaded = 0;  // of those, what came over the network
};

// What is on this machine of a kHub, kUrl or kS3 model, whole and as it was fetched last; nullopt
// where something is missing. Asks no network.
std::optional<std::filesystem::path> find_pulled(const ModelLocator& model,
                                                 const HubSettings& settings);

// Makes what is there the same as at its source, fetching no more than is missing. Files are shown
// under their names one by one, each whole and with its hash checked where its source has one; the
// revision, where it is a branch or a tag, last. Several processes may fetch the same at once: they
// wait for each other. Errors: those of HubSource, choose_files() and download(); kNotFound where
// the settings forbid to ask a network and something is missing; kIoError where the disk has no
// room for all, before anything is fetched.
Result<PulledModel> pull(const ModelLocator& model, const HubSettings& settings,
                         const PullListener& listener);

// The config.json alone of a model whose weights are not needed, fetched where it is not here; the
// revision counts as not fetched. nullopt where there is none: for a GGUF file, for kUrl and kS3,
// and where the settings forbid to ask a network. Errors: those of pull().
Result<std::optional<std::filesystem::path>> pull_config(const ModelLocator& model,
                                                         const HubSettings& settings,
                                                         const PullListener& listener);

// The headers alone of a GGUF model that is not here, of all its files, put into `folder`: files as
// large as the model's with nothing behind the headers. The one to open, which names no weights to
// load; nullopt where the model has other files, and where the settings forbid to ask a network.
// Errors: those of pull() and of fetch_gguf_headers().
Result<std::optional<std::filesystem::path>> pull_gguf_headers(const ModelLocator& model,
                                                               const HubSettings& settings,
                                                               const PullListener& listener,
                                                               const std::filesystem::path& folder);

}  // namespace quire
