#include "weights/hub_cache.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "base/printable.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRepoPrefix = "models--";
constexpr std::size_t kMaxRepoBytes = 96;
constexpr std::size_t kMaxPathBytes = 1024;
constexpr std::size_t kMaxPartBytes = 255;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path expanded(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  return fs::path(variable("HOME")) / path.substr(std::min<std::size_t>(2, path.size()));
}

bool is_repo_part(std::string_view part) {
  const auto is_edge = [](char c) { return c == '-' || c == '.'; };
  const auto is_fit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !part.empty() && std::ranges::all_of(part, is_fit) && !is_edge(part.front()) &&
         !is_edge(part.back());
}

Status cannot_write(const fs::path& path, const std::error_code& error) {
  return Status::io_error(
      fmt::format("cannot write {}: {}", printable(path.string(), 400), error.message()),
      "make room or allow writing there, or name another cache with HF_HOME");
}

}  // namespace

fs::path hub_home() {
  if (const std::string home = variable("HF_HOME"); !home.empty()) return expanded(home);
  const std::string cache = variable("XDG_CACHE_HOME");
  return (cache.empty() ? fs::path(variable("HOME")) / ".cache" : expanded(cache)) / "huggingface";
}

fs::path hub_cache_root() {
  const std::string cache = variable("HF_HUB_CACHE");
  return cache.empty() ? hub_home() / "hub" : expanded(cache);
}

bool is_hub_repo(std::string_view name) {
  if (name.size() > kMaxRepoBytes || name.find("--") != name.npos || name.find("..") != name.npos ||
      name.ends_with(".git")) {
    return false;
  }
  const std::size_t slash = name.find('/');
  if (slash == name.npos) return is_repo_part(name);
  return is_repo_part(name.substr(0, slash)) && is_repo_part(name.substr(slash + 1));
}

bool is_hub_commit(std::string_view text) {
  return text.size() == 40 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool stays_below(std::string_view path) {
  if (path.empty() || path.size() > kMaxPathBytes || printable(path, 4 * kMaxPathBytes) != path ||
      path.find('\\') != path.npos) {
    return false;
  }
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > kMaxPartBytes) return false;
    begin = end + 1;
  }
  return true;
}

std::string hub_model_name(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error).lexically_normal();
  if (error) return {};
  for (auto part = whole.begin(); part != whole.end(); ++part) {
    const std::string name = part->string();
    if (!name.starts_with(kRepoPrefix)) continue;
    const auto snapshots = std::next(part);
    if (snapshots == whole.end() || *snapshots != "snapshots") continue;
    const auto commit = std::next(snapshots);
    if (commit == whole.end() || !is_hub_commit(commit->string())) continue;
    const std::size_t mark = name.rfind("--");
    return name.substr(mark + 2);
  }
  return {};
}

fs::path HubCache::repo_folder(std::string_view repo) const {
  std::string name(kRepoPrefix);
  for (const char c : repo) {
    if (c == '/') {
      name += "--";
    } else {
      name += c;
    }
  }
  return root_ / name;
}

fs::path HubCache::snapshot(std::string_view repo, std::string_view commit) const {
  return repo_folder(repo) / "snapshots" / commit;
}

fs::path HubCache::blob(std::string_view repo, std::string_view etag) const {
  return repo_folder(repo) / "blobs" / etag;
}

std::optional<std::string> HubCache::commit_of(std::string_view repo,
                                               std::string_view revision) const {
  constexpr std::uint64_t kMaxRefBytes = 256;
  std::string commit(revision);
  if (!is_hub_commit(revision)) {
    if (!stays_below(revision)) return std::nullopt;
    auto text = read_file(repo_folder(repo) / "refs" / revision, kMaxRefBytes);
    if (!text.ok()) return std::nullopt;
    commit = *std::move(text);
    while (!commit.empty() && static_cast<unsigned char>(commit.back()) <= ' ') commit.pop_back();
  }
  std::error_code error;
  if (!is_hub_commit(commit) || !fs::is_directory(snapshot(repo, commit), error)) {
    return std::nullopt;
  }
  return commit;
}

Status HubCache::set_ref(std::string_view repo, std::string_view revision,
                         std::string_view commit) const {
  if (revision == commit) return {};
  const fs::path path = repo_folder(repo) / "refs" / revision;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return cannot_write(path.parent_path(), error);
  const fs::path fresh = path.string() + fmt::format(".{}", ::getpid());
  {
    std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
    file << commit;
    if (!file.flush()) return cannot_write(fresh, std::make_error_code(std::errc::io_error));
  }
  fs::rename(fresh, path, error);
  if (error) return cannot_write(path, error);
  return {};
}

Status HubCache::link(std::string_view repo, std::string_view commit, std::string_view file,
                      std::string_view etag) const {
  const fs::path path = snapshot(repo, commit) / file;
  std::string target;
  for (auto depth = 2 + std::ranges::count(file, '/'); depth > 0; --depth) target += "../";
  target += fmt::format("blobs/{}", etag);
  std::error_code error;
  if (fs::read_symlink(path, error) == target) return {};
  fs::create_directories(path.parent_path(), error);
  if (error) return cannot_write(path.parent_path(), error);
  const fs::path fresh = path.string() + fmt::format(".{}", ::getpid());
  fs::remove(fresh, error);
  fs::create_symlink(target, fresh, error);
  if (error) return cannot_write(fresh, error);
  fs::rename(fresh, path, error);
  if (error) return cannot_write(path, error);
  return {};
}

}  // namespace quire
