#include "hub/pull_hub.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/printable.h"
#include "hub/fetch_files.h"
#include "hub/file_choice.h"
#include "hub/gguf_headers.h"
#include "hub/hub_source.h"
#include "hub/transfers.h"
#include "weights/hub_cache.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxIndexBytes = 64U << 20;

bool is_file_here(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// The files of a snapshot whose contents are there.
std::vector<std::string> names_in(const fs::path& snapshot) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(snapshot, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!is_file_here(entry->path())) continue;
    names.push_back(entry->path().lexically_relative(snapshot).string());
  }
  std::ranges::sort(names);
  return names;
}

class HubPull {
 public:
  HubPull(const ModelLocator& model, const HubSettings& settings, const PullListener& listener,
          Transfers transfers)
      : model_(model),
        cache_(settings.cache),
        listener_(listener),
        transfers_(std::move(transfers)),
        asking_{.progress = [](std::uint64_t) {},
                .cancelled = listener.cancelled,
                .note = listener.note},
        source_(settings, transfers_, asking_),
        where_(fmt::format("{} of {}", model.repo, settings.endpoint)) {}
  HubPull(const HubPull&) = delete;
  HubPull& operator=(const HubPull&) = delete;

  Result<PulledModel> run() {
    QUIRE_ASSIGN_OR_RETURN(revision_, source_.revision(model_.repo, model_.revision));
    QUIRE_ASSIGN_OR_RETURN(const FileChoice choice,
                           choose_files(revision_.files, model_.file, where_));
    std::vector<std::string> names = choice.files;
    if (!choice.index.empty()) {
      QUIRE_RETURN_IF_ERROR(fetch({choice.index}));
      QUIRE_ASSIGN_OR_RETURN(const std::string json,
                             read_file(path_of(choice.index), kMaxIndexBytes));
      QUIRE_ASSIGN_OR_RETURN(
          const auto shards,
          shards_of_index(json, revision_.files, fmt::format("{}: {}", where_, choice.index)));
      names.insert(names.end(), shards.begin(), shards.end());
    }
    QUIRE_RETURN_IF_ERROR(fetch(names));
    QUIRE_RETURN_IF_ERROR(cache_.set_ref(model_.repo, model_.revision, revision_.commit));
    PulledModel pulled;
    pulled.path =
        choice.gguf.empty() ? cache_.snapshot(model_.repo, revision_.commit) : path_of(choice.gguf);
    pulled.commit = revision_.commit;
    for (const std::string& name : names) {
      std::error_code error;
      const std::uint64_t size = fs::file_size(path_of(name), error);
      pulled.bytes += error ? 0 : size;
    }
    pulled.files = std::move(names);
    pulled.downloaded = downloaded_;
    return pulled;
  }

  Result<std::optional<fs::path>> run_config() {
    QUIRE_ASSIGN_OR_RETURN(revision_, source_.revision(model_.repo, model_.revision));
    QUIRE_ASSIGN_OR_RETURN(const FileChoice choice,
                           choose_files(revision_.files, model_.file, where_));
    constexpr const char* kConfig = "config.json";
    if (std::ranges::find(choice.files, kConfig) == choice.files.end()) {
      return std::optional<fs::path>();
    }
    QUIRE_RETURN_IF_ERROR(fetch({kConfig}));
    return std::optional(path_of(kConfig));
  }

  Result<std::optional<fs::path>> run_headers(const fs::path& folder) {
    QUIRE_ASSIGN_OR_RETURN(revision_, source_.revision(model_.repo, model_.revision));
    QUIRE_ASSIGN_OR_RETURN(const FileChoice choice,
                           choose_files(revision_.files, model_.file, where_));
    if (choice.gguf.empty()) return std::optional<fs::path>();
    std::vector<FetchedFile> files;
    for (const std::string& name : choice.files) {
      if (!name.ends_with(".gguf")) continue;
      QUIRE_ASSIGN_OR_RETURN(HubFile found, source_.file(model_.repo, revision_.commit, name));
      FetchedFile& file = files.emplace_back();
      file.target = folder / fs::path(name).filename();
      file.explain = [this, name](const FetchAnswer& answer) {
        return source_.explain(answer, model_.repo, name);
      };
      file.remote = std::move(found.remote);
    }
    QUIRE_RETURN_IF_ERROR(fetch_gguf_headers(files, transfers_, listener_));
    return std::optional(folder / fs::path(choice.gguf).filename());
  }

 private:
  fs::path path_of(const std::string& name) const {
    return cache_.snapshot(model_.repo, revision_.commit) / name;
  }

  Status fetch(const std::vector<std::string>& names) {
    std::vector<FetchedFile> files;
    for (const std::string& name : names) {
      if (is_file_here(path_of(name))) continue;  // a commit's files never change
      QUIRE_ASSIGN_OR_RETURN(HubFile found, source_.file(model_.repo, revision_.commit, name));
      FetchedFile& file = files.emplace_back();
      file.target = cache_.blob(model_.repo, found.etag);
      file.partial = file.target.string() + ".incomplete";
      file.lock = cache_.root() / ".locks" / cache_.repo_folder(model_.repo).filename() /
                  (found.etag + ".lock");
      file.explain = [this, name](const FetchAnswer& answer) {
        return source_.explain(answer, model_.repo, name);
      };
      file.done = [this, name, etag = found.etag] {
        return cache_.link(model_.repo, revision_.commit, name, etag);
      };
      file.remote = std::move(found.remote);
    }
    QUIRE_ASSIGN_OR_RETURN(const std::uint64_t bytes, fetch_files(files, transfers_, listener_));
    downloaded_ += bytes;
    return {};
  }

  const ModelLocator& model_;
  HubCache cache_;
  const PullListener& listener_;
  Transfers transfers_;
  DownloadListener asking_;
  HubSource source_;
  std::string where_;
  HubRevision revision_;
  std::uint64_t downloaded_ = 0;
};

}  // namespace

Result<FoundHubModel> find_hub_model(const ModelLocator& model, const HubSettings& settings) {
  const HubCache cache(settings.cache);
  const std::string where = fmt::format("the cache at {}", printable(settings.cache.string(), 400));
  const std::string remedy = fmt::format("quire pull {} with a network fetches it", model.text());
  const auto commit = cache.commit_of(model.repo, model.revision);
  if (!commit) {
    return Status::not_found(fmt::format("{} has no {}", where, printable(model.text())), remedy);
  }
  const fs::path snapshot = cache.snapshot(model.repo, *commit);
  std::vector<std::string> names = names_in(snapshot);
  QUIRE_ASSIGN_OR_RETURN(
      const FileChoice choice,
      choose_files(names, model.file, fmt::format("{} of {}", printable(model.repo), where)));
  if (!choice.gguf.empty()) {
    return FoundHubModel{
        .path = snapshot / choice.gguf, .commit = *commit, .files = choice.files, .is_gguf = true};
  }
  const auto missing = [&](const std::string& what) {
    return Status::not_found(
        fmt::format("{} has {} without {}", where, printable(model.text()), what), remedy);
  };
  if (!is_file_here(snapshot / "config.json")) return missing("config.json");
  if (!choice.index.empty()) {
    QUIRE_ASSIGN_OR_RETURN(const std::string json,
                           read_file(snapshot / choice.index, kMaxIndexBytes));
    const auto shards = shards_of_index(json, names, choice.index);
    if (!shards.ok()) return missing(fmt::format("a part: {}", shards.status().message()));
  }
  return FoundHubModel{
      .path = snapshot, .commit = *commit, .files = std::move(names), .is_gguf = false};
}

Result<PulledModel> pull_hub(const ModelLocator& model, const HubSettings& settings,
                             const PullListener& listener) {
  if (settings.offline) {
    auto found = find_hub_model(model, settings);
    if (!found.ok()) {
      const Status status = found.status();
      return Status(
          status.code(),
          fmt::format("HF_HUB_OFFLINE forbids to ask the network, and {}", status.message()),
          status.remedy());
    }
    PulledModel pulled;
    pulled.path = std::move(found->path);
    pulled.commit = std::move(found->commit);
    pulled.files = std::move(found->files);
    return pulled;
  }
  QUIRE_ASSIGN_OR_RETURN(Transfers transfers, Transfers::create());
  return HubPull(model, settings, listener, std::move(transfers)).run();
}

Result<std::optional<fs::path>> pull_hub_config(const ModelLocator& model,
                                                const HubSettings& settings,
                                                const PullListener& listener) {
  QUIRE_ASSIGN_OR_RETURN(Transfers transfers, Transfers::create());
  return HubPull(model, settings, listener, std::move(transfers)).run_config();
}

Result<std::optional<fs::path>> pull_hub_headers(const ModelLocator& model,
                                                 const HubSettings& settings,
                                                 const PullListener& listener,
                                                 const fs::path& folder) {
  QUIRE_ASSIGN_OR_RETURN(Transfers transfers, Transfers::create());
  return HubPull(model, settings, listener, std::move(transfers)).run_headers(folder);
}

}  // namespace quire
