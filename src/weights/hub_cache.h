// The cache of models that Hugging Face's tools and Quire share, as it lies on this machine; what
// fills it over a network is src/hub. Layout (huggingface.co/docs/huggingface_hub, "Manage cache"):
//
//   ROOT/models--ORG--NAME/blobs/<etag>                  contents, each once
//                          refs/<revision>               the commit that a branch or tag was
//                          snapshots/<commit>/<file>  -> ../../blobs/<etag>
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace quire {

// $HF_HOME, else $XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface.
std::filesystem::path hub_home();
// $HF_HUB_CACHE, else hub_home()/hub.
std::filesystem::path hub_cache_root();

// Whether the hub may have a model of this name: "org/name", or "name" from its early days.
bool is_hub_repo(std::string_view name);
// 40 hexadecimal digits in lower case.
bool is_hub_commit(std::string_view text);
// Whether a name that a server gave (of a file, of a revision) stays below the folder it is put
// into: relative, at most 1024 bytes, no part that is empty, "." or "..", nothing unprintable.
bool stays_below(std::string_view path);

// The last part of a model's name, for a path at or below its snapshot: "NAME" for
// .../models--ORG--NAME/snapshots/<commit>/file. Empty for other paths.
std::string hub_model_name(const std::filesystem::path& path);

// What the cache has of one model.
struct CachedModel {
  struct Revision {
    std::string commit;
    std::vector<std::string> refs;  // branches and tags that point to it
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;
  };

  std::string repo;  // "org/name"
  std::vector<Revision> revisions;
  std::uint64_t bytes = 0;     // on the disk: contents that revisions share count once
  std::int64_t last_used = 0;  // Unix time when a content was read last, as the system tells
  bool unfinished = false;     // a download was interrupted
};

// What removing a revision, or a model, deletes.
struct CacheRemoval {
  std::vector<std::filesystem::path> paths;  // files and folders, in the order of removing
  std::uint64_t bytes = 0;
};

class HubCache {
 public:
  explicit HubCache(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path repo_folder(std::string_view repo) const;
  std::filesystem::path snapshot(std::string_view repo, std::string_view commit) const;
  std::filesystem::path blob(std::string_view repo, std::string_view etag) const;

  // The commit that `revision` (a branch, a tag or a commit itself) was when it was fetched;
  // nullopt where the cache does not have its snapshot.
  std::optional<std::string> commit_of(std::string_view repo, std::string_view revision) const;

  // Remembers that `revision` is `commit`; a commit names itself. kIoError.
  Status set_ref(std::string_view repo, std::string_view revision, std::string_view commit) const;
  // Shows the content `etag` as `file` of the snapshot. A link that is there already is replaced at
  // once, never missing in between. kIoError.
  Status link(std::string_view repo, std::string_view commit, std::string_view file,
              std::string_view etag) const;

  // Models by name; an absent cache is an empty one. kIoError where a folder cannot be listed.
  Result<std::vector<CachedModel>> list() const;

  // What remove() would delete of `repo`: the snapshot of `revision` with the contents that no
  // other snapshot shows, or everything if `revision` is empty. kNotFound.
  Result<CacheRemoval> plan_removal(std::string_view repo, std::string_view revision) const;

 private:
  std::filesystem::path root_;
};

// Removes those paths. What is gone already is no error; kIoError for what stays.
Status remove_paths(const CacheRemoval& removal);

}  // namespace quire
