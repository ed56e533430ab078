// A disk that is full at the bytes that a test says: SQLite's default file system, but a write that
// would make the files of a folder larger than that in all fails as on a full disk. For tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <sqlite3.h>
#include <string_view>
#include <utility>

namespace quire::test {

class FullDisk {
 public:
  // For every database that is opened in `folder` while this lives.
  explicit FullDisk(std::filesystem::path folder) {
    sqlite3_vfs* const base = sqlite3_vfs_find(nullptr);
    State& disk = state();
    disk.base = base;
    disk.folder = std::move(folder);
    disk.capacity = std::numeric_limits<std::uint64_t>::max();
    disk.vfs = *base;
    disk.vfs.zName = "full-disk";
    disk.vfs.xOpen = open;
    sqlite3_vfs_register(&disk.vfs, /*makeDflt=*/1);
  }
  ~FullDisk() {
    sqlite3_vfs_unregister(&state().vfs);
    sqlite3_vfs_register(state().base, /*makeDflt=*/1);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

  static std::uint64_t used() {
    std::uint64_t sum = 0;
    for (const auto& entry : std::filesystem::directory_iterator(state().folder)) {
      sum += entry.file_size();
    }
    return sum;
  }
  static void set_capacity(std::uint64_t bytes) { state().capacity = bytes; }

 private:
  // Outlives every database that was opened with it.
  struct State {
    sqlite3_vfs vfs{};
    sqlite3_vfs* base = nullptr;
    std::filesystem::path folder;
    std::uint64_t capacity = std::numeric_limits<std::uint64_t>::max();
    std::map<const sqlite3_io_methods*, sqlite3_io_methods> methods = {};  // by those of the base
    std::map<sqlite3_file*, const sqlite3_io_methods*> files = {};
  };
  static State& state() {
    static State state;
    return state;
  }

  static int open(sqlite3_vfs* /*vfs*/, const char* name, sqlite3_file* file, int flags,
                  int* out_flags) {
    State& disk = state();
    const int rc = disk.base->xOpen(disk.base, name, file, flags, out_flags);
    if (rc != SQLITE_OK || name == nullptr || file->pMethods == nullptr) return rc;
    if (!std::string_view(name).starts_with(disk.folder.native())) return rc;
    const sqlite3_io_methods* const base = file->pMethods;
    const auto [own, added] = disk.methods.try_emplace(base, *base);
    own->second.xWrite = write;
    disk.files[file] = base;
    file->pMethods = &own->second;
    return rc;
  }

  static int write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
    const sqlite3_io_methods* const base = state().files.at(file);
    sqlite3_int64 before = 0;
    base->xFileSize(file, &before);
    const sqlite3_int64 growth = std::max<sqlite3_int64>(0, offset + size - before);
    if (growth > 0 && used() + static_cast<std::uint64_t>(growth) > state().capacity) {
      return SQLITE_FULL;
    }
    return base->xWrite(file, data, size, offset);
  }
};

}  // namespace quire::test
