// `quire list` and `quire rm`: the models that were pulled.
#include <algorithm>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <unistd.h>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/commands.h"
#include "apps/help.h"
#include "apps/output_file.h"
#include "base/json.h"
#include "base/printable.h"
#include "hub/hub_settings.h"
#include "hub/model_locator.h"
#include "hub/url_cache.h"
#include "weights/hub_cache.h"

namespace quire {
namespace {

struct ListFlags {
  bool json = false;
};

struct RemoveFlags {
  std::string model;
  bool yes = false;
};

std::string shown_bytes(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return value >= 1e9 ? fmt::format("{:.1f} GB", value / 1e9)
                      : fmt::format("{:.1f} MB", value / 1e6);
}

std::string shown_day(std::int64_t time) {
  if (time == 0) return "-";
  const auto when = static_cast<std::time_t>(time);
  std::tm parts{};
  ::localtime_r(&when, &parts);
  return fmt::format("{:%Y-%m-%d %H:%M}", parts);
}

json::object model_json(const CachedModel& model) {
  json::array revisions;
  for (const CachedModel::Revision& revision : model.revisions) {
    revisions.push_back({{"commit", revision.commit},
                         {"refs", json::array(revision.refs.begin(), revision.refs.end())},
                         {"files", revision.files},
                         {"bytes", revision.bytes}});
  }
  return {{"model", model.repo},
          {"bytes", model.bytes},
          {"last_used", model.last_used},
          {"unfinished", model.unfinished},
          {"revisions", std::move(revisions)}};
}

json::object source_json(const UrlCache::Source& source, const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  for (const UrlCache::File& file : source.files) bytes += file.size;
  return {{"model", source.address}, {"bytes", bytes}, {"path", folder.string()}};
}

// Without what follows a question mark, which may be a signature.
std::string shown_address(const std::string& address) {
  return printable(address.substr(0, address.find('?')), 300);
}

Status run_list(const ListFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const HubSettings settings, hub_settings_from_environment());
  QUIRE_ASSIGN_OR_RETURN(const auto models, HubCache(settings.cache).list());
  const UrlCache urls(settings.url_cache);
  QUIRE_ASSIGN_OR_RETURN(const auto sources, urls.list());
  QUIRE_ASSIGN_OR_RETURN(OutputFile output, OutputFile::create("-"));
  if (flags.json) {
    json::array list;
    for (const CachedModel& model : models) list.push_back(model_json(model));
    for (const UrlCache::Source& source : sources) {
      list.push_back(source_json(source, urls.folder(source.address)));
    }
    return output.write(json::serialize(list) + "\n");
  }
  if (models.empty() && sources.empty()) {
    fmt::print(stderr, "no models in {} or {}; quire pull fetches one\n",
               printable(settings.cache.string(), 300),
               printable(settings.url_cache.string(), 300));
    return {};
  }
  std::string text = fmt::format("{:<48} {:<24} {:>10}  {}\n", "model", "revision", "size", "used");
  for (const CachedModel& model : models) {
    const std::string name = model.repo + (model.unfinished ? " (unfinished)" : "");
    if (model.revisions.empty()) {
      text += fmt::format("{:<48} {:<24} {:>10}  {}\n", name, "-", shown_bytes(model.bytes),
                          shown_day(model.last_used));
    }
    for (const CachedModel::Revision& revision : model.revisions) {
      constexpr std::size_t kShortCommit = 12;
      const std::string commit = revision.commit.substr(0, kShortCommit);
      const std::string refs = revision.refs.empty()
                                   ? commit
                                   : fmt::format("{} {}", fmt::join(revision.refs, ","), commit);
      text += fmt::format("{:<48} {:<24} {:>10}  {}\n", name, printable(refs),
                          shown_bytes(revision.bytes), shown_day(model.last_used));
    }
  }
  for (const UrlCache::Source& source : sources) {
    std::uint64_t bytes = 0;
    for (const UrlCache::File& file : source.files) bytes += file.size;
    text += fmt::format("{:<48} {:<24} {:>10}  -\n", shown_address(source.address), "-",
                        shown_bytes(bytes));
  }
  return output.write_text(text);
}

// What is to go, and how it is called.
Result<CacheRemoval> removal_of(const std::string& named, const HubSettings& settings,
                                std::string& shown) {
  QUIRE_ASSIGN_OR_RETURN(const ModelLocator model, parse_model_locator(named));
  shown = shown_address(model.text());
  if (model.kind == ModelLocator::Kind::kPath || !model.file.empty()) {
    return Status::invalid_argument(
        fmt::format("{} is not the name of a pulled model", printable(named)),
        "give ORG/NAME, ORG/NAME@REVISION or an address, as quire list shows it");
  }
  if (model.kind == ModelLocator::Kind::kHub) {
    const bool all = named.find('@') == std::string::npos;
    return HubCache(settings.cache).plan_removal(model.repo, all ? "" : model.revision);
  }
  const UrlCache urls(settings.url_cache);
  const std::filesystem::path folder = urls.folder(model.text()).parent_path();
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return Status::not_found(fmt::format("{} was not pulled", shown), "quire list shows what was");
  }
  CacheRemoval removal;
  removal.paths = {folder};
  if (const auto source = urls.find(model.text())) {
    for (const UrlCache::File& file : source->files) removal.bytes += file.size;
  }
  return removal;
}

Status run_remove(const RemoveFlags& flags) {
  QUIRE_ASSIGN_OR_RETURN(const HubSettings settings, hub_settings_from_environment());
  std::string shown;
  QUIRE_ASSIGN_OR_RETURN(const CacheRemoval removal, removal_of(flags.model, settings, shown));
  if (!flags.yes) {
    if (::isatty(STDIN_FILENO) == 0) {
      return Status::invalid_argument(
          fmt::format("rm needs confirmation before it removes {}, and nobody can be asked", shown),
          "give --yes");
    }
    fmt::print(stderr, "remove {}, {}? [y/N] ", shown, shown_bytes(removal.bytes));
    std::string answer;
    std::getline(std::cin, answer);
    if (answer != "y" && answer != "Y" && answer != "yes") {
      return Status(StatusCode::kCancelled, "not removed");
    }
  }
  QUIRE_RETURN_IF_ERROR(remove_paths(removal));
  fmt::print(stderr, "removed {}, {}\n", shown, shown_bytes(removal.bytes));
  return {};
}

}  // namespace

Command add_list(CLI::App& app) {
  auto flags = std::make_shared<ListFlags>();
  set_help(app, {{{"quire list", "the models that were pulled"},
                  {"quire list --json", "the same for programs"}}});
  app.add_flag("--json", flags->json, "Print one JSON list");
  app.footer(
      "Shows the cache that is shared with Hugging Face's tools (HF_HUB_CACHE, HF_HOME), and "
      "models from other addresses.");
  return [flags] { return run_list(*flags); };
}

Command add_rm(CLI::App& app) {
  auto flags = std::make_shared<RemoveFlags>();
  set_help(app, {{{"quire rm Qwen/Qwen3-0.6B", "a model with all its revisions"},
                  {"quire rm Qwen/Qwen3-0.6B@main --yes", "one revision, without a question"}}});
  app.add_option("NAME", flags->model, "Model as shown by quire list, ORG/NAME[@REVISION]")
      ->type_name("NAME")
      ->required();
  app.add_flag("--yes", flags->yes, "Do not ask first");
  app.footer("Files that other revisions of the model use are kept.");
  return [flags] { return run_remove(*flags); };
}

}  // namespace quire
