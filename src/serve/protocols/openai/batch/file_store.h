// The files that clients uploaded and that batches wrote, in the database. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "serve/protocols/openai/batch/batch_database.h"
#include "serve/protocols/openai/batch/batch_types.h"

namespace quire {

struct FileListQuery {
  std::optional<std::string> purpose;
  std::optional<std::string> after;  // the id of the last file that the client has
  bool ascending = false;            // by the time of creation
  std::int64_t limit = 10'000;
};

class FileStore {
 public:
  // Borrows the database.
  explicit FileStore(BatchDatabase& database) : database_(database) {}

  // Durable when it returns. `file` needs no id, row and bytes. kResourceExhausted beyond a limit
  // of files or bytes and on a full disk; then nothing is left of it.
  Result<FileInfo> create(FileInfo file, std::string_view content);
  // kNotFound, also for what a batch has not finished yet.
  Result<FileInfo> get(std::string_view id);
  // kInvalidArgument for an `after` that is not there.
  Result<Page<FileInfo>> list(const FileListQuery& query);
  Result<std::string> read(const FileInfo& file, std::int64_t begin, std::int64_t size);
  // kUnavailable while a batch that has not ended reads it. A full disk is no obstacle.
  Status remove(std::string_view id);
  // Deletes the files whose time has passed and that no batch reads, and frees what is left of
  // others that were deleted.
  Status remove_expired(std::int64_t now);

 private:
  // With the database's mutex held.
  Status free_deleted();
  // Runs `write`, where the disk is full with room of the reserve, of which `keep` bytes stay.
  Status write_on_full_disk(std::int64_t keep, const std::function<Status()>& write);

  BatchDatabase& database_;
  bool reserve_used_ = false;
};

}  // namespace quire
