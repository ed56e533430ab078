// Listing and removing what the cache of models has.
#include <algorithm>
#include <map>
#include <set>
#include <sys/stat.h>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/printable.h"
#include "weights/hub_cache.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolderPrefix = "models--";

// "org/name" of "models--org--name"; empty for another folder.
std::string repo_of(const std::string& folder) {
  if (!folder.starts_with(kFolderPrefix)) return {};
  std::string name = folder.substr(kFolderPrefix.size());
  if (const std::size_t mark = name.find("--"); mark != std::string::npos) {
    name.replace(mark, 2, "/");
  }
  return is_hub_repo(name) ? name : std::string();
}

// Everything below `folder` that is no folder, links as links; none where it is absent.
Result<std::vector<fs::path>> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  if (!fs::exists(folder, error)) return files;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_symlink(ignored) || !entry->is_directory(ignored)) files.push_back(entry->path());
  }
  if (error) {
    return Status::io_error(
        fmt::format("cannot list {}: {}", printable(folder.string(), 400), error.message()));
  }
  std::ranges::sort(files);
  return files;
}

// The contents that a snapshot shows: where its links lead, links of links aside.
Result<std::set<fs::path>> contents_of(const fs::path& snapshot) {
  std::set<fs::path> contents;
  QUIRE_ASSIGN_OR_RETURN(const auto files, files_below(snapshot));
  for (const fs::path& file : files) {
    std::error_code error;
    const fs::path target = fs::read_symlink(file, error);
    contents.insert(error ? file : (file.parent_path() / target).lexically_normal());
  }
  return contents;
}

std::uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(file, error);
  return error ? 0 : size;
}

Result<std::vector<std::string>> snapshots_of(const fs::path& repo) {
  std::vector<std::string> commits;
  std::error_code error;
  for (fs::directory_iterator entry(repo / "snapshots", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_hub_commit(name)) commits.push_back(name);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return Status::io_error(
        fmt::format("cannot list {}: {}", printable(repo.string(), 400), error.message()));
  }
  std::ranges::sort(commits);
  return commits;
}

// Which names point to which commit.
Result<std::multimap<std::string, std::string>> refs_of(const fs::path& repo) {
  std::multimap<std::string, std::string> refs;
  QUIRE_ASSIGN_OR_RETURN(const auto files, files_below(repo / "refs"));
  for (const fs::path& file : files) {
    const auto commit = read_file(file, 256);
    if (!commit.ok()) continue;
    refs.emplace(commit->substr(0, 40), file.lexically_relative(repo / "refs").string());
  }
  return refs;
}

Result<CachedModel> look_at(const fs::path& repo, const std::string& name) {
  CachedModel model;
  model.repo = name;
  QUIRE_ASSIGN_OR_RETURN(const auto commits, snapshots_of(repo));
  QUIRE_ASSIGN_OR_RETURN(const auto refs, refs_of(repo));
  for (const std::string& commit : commits) {
    CachedModel::Revision& revision = model.revisions.emplace_back();
    revision.commit = commit;
    const auto [first, last] = refs.equal_range(commit);
    for (auto ref = first; ref != last; ++ref) revision.refs.push_back(ref->second);
    QUIRE_ASSIGN_OR_RETURN(const auto contents, contents_of(repo / "snapshots" / commit));
    for (const fs::path& content : contents) {
      ++revision.files;
      revision.bytes += size_of(content);
    }
  }
  QUIRE_ASSIGN_OR_RETURN(const auto blobs, files_below(repo / "blobs"));
  for (const fs::path& blob : blobs) {
    struct stat facts {};
    if (::stat(blob.c_str(), &facts) != 0) continue;
    model.bytes += static_cast<std::uint64_t>(facts.st_size);
    model.last_used = std::max<std::int64_t>(model.last_used, facts.st_atim.tv_sec);
    model.unfinished = model.unfinished || blob.extension() == ".incomplete";
  }
  return model;
}

}  // namespace

Result<std::vector<CachedModel>> HubCache::list() const {
  std::vector<std::pair<std::string, fs::path>> folders;
  std::error_code error;
  for (fs::directory_iterator entry(root_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string repo = repo_of(entry->path().filename().string());
    std::error_code ignored;
    if (!repo.empty() && entry->is_directory(ignored)) folders.emplace_back(repo, entry->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return Status::io_error(
        fmt::format("cannot list {}: {}", printable(root_.string(), 400), error.message()));
  }
  std::ranges::sort(folders);
  std::vector<CachedModel> models;
  for (const auto& [repo, folder] : folders) {
    QUIRE_ASSIGN_OR_RETURN(CachedModel model, look_at(folder, repo));
    models.push_back(std::move(model));
  }
  return models;
}

Result<CacheRemoval> HubCache::plan_removal(std::string_view repo,
                                            std::string_view revision) const {
  const fs::path folder = repo_folder(repo);
  const auto absent = [&](std::string_view what) {
    return Status::not_found(
        fmt::format("the cache at {} has no {}", printable(root_.string(), 400), what),
        "quire list shows what it has");
  };
  std::error_code error;
  if (!fs::is_directory(folder, error)) return absent(printable(repo));
  CacheRemoval removal;
  const fs::path locks = root_ / ".locks" / folder.filename();
  std::string commit;
  if (!revision.empty()) {
    const auto found = commit_of(repo, revision);
    if (!found) return absent(fmt::format("{} at {}", printable(repo), printable(revision)));
    commit = *found;
  }
  QUIRE_ASSIGN_OR_RETURN(auto commits, snapshots_of(folder));
  std::erase(commits, commit);
  if (revision.empty() || commits.empty()) {  // everything
    QUIRE_ASSIGN_OR_RETURN(const auto blobs, files_below(folder / "blobs"));
    for (const fs::path& blob : blobs) removal.bytes += size_of(blob);
    removal.paths = {folder, locks};
    return removal;
  }
  QUIRE_ASSIGN_OR_RETURN(const auto refs, refs_of(folder));
  const auto [first, last] = refs.equal_range(commit);
  for (auto ref = first; ref != last; ++ref) removal.paths.push_back(folder / "refs" / ref->second);
  removal.paths.push_back(snapshot(repo, commit));
  std::set<fs::path> kept;
  for (const std::string& other : commits) {
    QUIRE_ASSIGN_OR_RETURN(const auto contents, contents_of(snapshot(repo, other)));
    kept.insert(contents.begin(), contents.end());
  }
  QUIRE_ASSIGN_OR_RETURN(const auto contents, contents_of(snapshot(repo, commit)));
  for (const fs::path& content : contents) {
    // A link may lead anywhere: only contents of this model are deleted.
    if (kept.contains(content) || content.parent_path() != (folder / "blobs").lexically_normal()) {
      continue;
    }
    removal.bytes += size_of(content);
    removal.paths.push_back(content);
  }
  return removal;
}

Status remove_paths(const CacheRemoval& removal) {
  for (const fs::path& path : removal.paths) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) {
      return Status::io_error(
          fmt::format("cannot remove {}: {}", printable(path.string(), 400), error.message()));
    }
  }
  return {};
}

}  // namespace quire
