// Models as people name them on the command line, made into what lies on this machine.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/api.h"
#include "hub/hub_settings.h"
#include "hub/model_locator.h"
#include "hub/pull.h"

namespace quire {

// What `named` is: a path where something lies there, else as parse_model_locator() reads it.
Result<ModelLocator> locate_model(const std::string& named);

// `named`, a model of a hub, at `revision`: "ORG/NAME@REVISION". kInvalidArgument for another name,
// or one that says another revision; `flag` is what the revision was given by.
Result<std::string> at_revision(const std::string& named, const std::string& revision,
                                std::string_view flag);

// Fetches a model and shows progress on stderr. kCancelled where `cancelled` says so.
Result<PulledModel> pull_shown(const ModelLocator& model, const HubSettings& settings,
                               const std::function<bool()>& cancelled);

// The config.json of `named`, a model of a hub that is not here, without its weights; nullopt where
// local_model() is needed for it. Errors: those of pull().
Result<std::optional<std::string>> config_of_absent_model(const std::string& named);

// The same for the headers of a GGUF model, which go to files in `folder` (pull_gguf_headers());
// nullopt where the model is here, or no header can be asked for. The file to open.
Result<std::optional<std::string>> headers_of_absent_model(const std::string& named,
                                                           const std::filesystem::path& folder);

// The path to open for `named`; the bundled model for an empty name. A model of a hub, of an
// address or of a bucket is fetched where it is not here yet, and used as it is here otherwise:
// `quire pull` looks for what is newer. Errors: those of pull(); kNotFound where the bundled model
// is not there.
Result<std::string> local_model(const std::string& named);

// The same for the models and the tokenizer of an engine's arguments.
Status make_models_local(EngineArgs& args);

}  // namespace quire
