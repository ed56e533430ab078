// `quire pull`: getting a model onto this machine.
#include <csignal>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/flag_values.h"
#include "apps/help.h"
#include "apps/interrupt.h"
#include "apps/local_model.h"
#include "apps/output_file.h"
#include "base/json.h"
#include "base/printable.h"

namespace quire {
namespace {

struct PullFlags {
  std::string model;
  bool json = false;
};

Status run_pull(const PullFlags& flags) {
  // A limit of this process on the size of files shows as a failed write.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  InterruptWatcher interrupt;
  QUIRE_ASSIGN_OR_RETURN(const ModelLocator model, parse_model_locator(flags.model));
  if (model.kind == ModelLocator::Kind::kPath) {
    return Status::invalid_argument(
        fmt::format("{} is not the name of a model that can be pulled", printable(flags.model)),
        "give ORG/NAME, ORG/NAME@REVISION, ORG/NAME:Q4_K_M, https://HOST/FILE.gguf or "
        "s3://BUCKET/KEY");
  }
  QUIRE_ASSIGN_OR_RETURN(const HubSettings settings, hub_settings_from_environment());
  QUIRE_RETURN_IF_ERROR(interrupt.watch([] {}));
  auto pulled = pull_shown(model, settings, [&interrupt] { return interrupt.interrupted(); });
  if (!pulled.ok()) {
    const Status status = pulled.status();
    if (status.code() == StatusCode::kCancelled) {
      fmt::print(stderr, "quire: interrupted; the same command goes on where this ended\n");
    }
    return status;
  }
  QUIRE_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create("-"));
  if (flags.json) {
    const json::object record = {{"model", model.text()},
                                 {"path", pulled->path.string()},
                                 {"commit", pulled->commit},
                                 {"files", json::array(pulled->files.begin(), pulled->files.end())},
                                 {"bytes", pulled->bytes},
                                 {"downloaded_bytes", pulled->downloaded}};
    return output.write(json::serialize(record) + "\n");
  }
  return output.write_text(pulled->path.string() + "\n");
}

}  // namespace

Command add_pull(CLI::App& app) {
  auto flags = std::make_shared<PullFlags>();
  set_help(app, {{{"quire pull Qwen/Qwen3-0.6B", "a model of the Hugging Face hub"},
                  {"quire pull ggml-org/gemma-3-4b-it-GGUF:Q4_K_M", "one of its GGUF files"}}});
  app.add_option("NAME", flags->model,
                 "ORG/NAME[@REV][:GGUF] of the Hugging Face hub, the http(s) URL of a .gguf file, "
                 "or s3://BUCKET/KEY of a .gguf file or a folder")
      ->type_name("NAME")
      ->required();
  add_revision(app, flags->model, "--revision", "Options");
  app.add_flag("--json", flags->json, "Print one JSON object instead of the path");
  app.footer(
      "Prints the path of the model. Files are stored in the cache that Hugging Face's tools use, "
      "or in HF_HOME. Files that are already there are not downloaded again, and interrupted "
      "downloads continue. HF_TOKEN gives access to gated and private models, HF_ENDPOINT names "
      "another hub, HF_HUB_OFFLINE=1 disables the network; AWS_... variables are for s3://.");
  return [flags] { return run_pull(*flags); };
}

}  // namespace quire
