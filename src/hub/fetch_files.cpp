#include "hub/fetch_files.h"

#include <algorithm>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/printable.h"
#include "hub/blob_download.h"
#include "hub/file_lock.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

std::uint64_t size_on_disk(const fs::path& path) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

bool is_there(const FetchedFile& file) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(file.target, error);
  return !error && size == file.remote.size;
}

Status make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return {};
  return Status::io_error(fmt::format("cannot make the folder {}: {}",
                                      printable(folder.string(), 400), error.message()),
                          "make room or allow writing there, or name another cache with HF_HOME");
}

// Files that share a partial file are one content under two names.
Status check_room(const std::vector<FetchedFile>& files) {
  std::uint64_t needed = 0;
  std::vector<fs::path> seen;
  for (const FetchedFile& file : files) {
    if (is_there(file) || std::ranges::find(seen, file.target) != seen.end()) continue;
    seen.push_back(file.target);
    const std::uint64_t rest =
        file.remote.size - std::min(size_on_disk(file.partial), file.remote.size);
    const auto sum = checked_add(needed, rest);
    if (!sum) return Status::io_error("the files are larger than any disk");
    needed = *sum;
  }
  if (files.empty() || needed == 0) return {};
  std::error_code error;
  const fs::path folder = files.front().target.parent_path();
  const fs::space_info space = fs::space(folder, error);
  if (error || space.available >= needed) return {};
  return Status::io_error(
      fmt::format("the disk of {} has {:.1f} MB free, and {:.1f} MB are to come",
                  printable(folder.string(), 400), static_cast<double>(space.available) / 1e6,
                  static_cast<double>(needed) / 1e6),
      "make room, or name another cache with HF_HOME");
}

}  // namespace

Result<std::uint64_t> fetch_files(const std::vector<FetchedFile>& files, Transfers& transfers,
                                  const PullListener& listener) {
  std::uint64_t total = 0;
  for (const FetchedFile& file : files) {
    QUIRE_RETURN_IF_ERROR(make_folder(file.target.parent_path()));
    const auto sum = checked_add(total, file.remote.size);
    if (!sum) return Status::io_error("the files are larger than any disk");
    total = *sum;
  }
  QUIRE_RETURN_IF_ERROR(check_room(files));
  std::uint64_t before = 0;
  std::uint64_t downloaded = 0;
  for (const FetchedFile& file : files) {
    const auto report = [&](std::uint64_t done) {
      listener.progress(file.remote.name, before + done, total);
    };
    if (!is_there(file)) {
      const auto lock = FileLock::take(
          file.lock,
          [&] {
            listener.note(
                fmt::format("waiting for another process that fetches {}", file.remote.name));
          },
          listener.cancelled);
      QUIRE_RETURN_IF_ERROR(lock.status());
      if (!is_there(file)) {  // still: nobody else fetched it meanwhile
        downloaded += file.remote.size - std::min(size_on_disk(file.partial), file.remote.size);
        const DownloadListener of_file = {
            .progress = report, .cancelled = listener.cancelled, .note = listener.note};
        QUIRE_RETURN_IF_ERROR(
            download(transfers, file.remote, file.partial, file.explain, of_file));
        std::error_code error;
        fs::rename(file.partial, file.target, error);
        if (error) {
          return Status::io_error(fmt::format(
              "cannot write {}: {}", printable(file.target.string(), 400), error.message()));
        }
      }
    }
    QUIRE_RETURN_IF_ERROR(file.done());
    before += file.remote.size;
    report(0);
  }
  return downloaded;
}

}  // namespace quire
