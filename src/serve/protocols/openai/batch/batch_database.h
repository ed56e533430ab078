// The database behind files and batches: its schema, and the records of files, which uploads and
// batches both write. A file's content is a row of pieces, each under the byte that it begins at,
// so that none is ever in memory whole, and a batch's output grows by one piece a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/status.h"
#include "serve/protocols/openai/batch/batch_types.h"
#include "serve/protocols/openai/batch/disk_reserve.h"
#include "serve/protocols/openai/batch/sqlite.h"

namespace quire {

// Shared by the stores; whoever uses `sqlite` holds `mutex`.
struct BatchDatabase {
  std::mutex mutex;
  SqliteDatabase sqlite;
  BatchLimits limits;
  DiskReserve reserve;  // for deletions

  // kUnavailable where another process has it, kConfig where a later version has written it.
  static Result<std::unique_ptr<BatchDatabase>> open(const std::filesystem::path& path,
                                                     const BatchLimits& limits);
};

// `prefix` and 32 random hexadecimal digits.
std::string new_object_id(std::string_view prefix);

// What the column `published` of a file says.
namespace file_state {
inline constexpr int kWriting = 0;  // by a batch; no client sees it
inline constexpr int kPublished = 1;
inline constexpr int kDeleted = -1;  // no client sees it; its content goes piece by piece
}  // namespace file_state

// Inserts an empty file and returns its row. One that is not published is seen by no client.
Result<std::int64_t> insert_file(SqliteDatabase& sqlite, const FileInfo& file, bool published);
Status append_to_file(SqliteDatabase& sqlite, std::int64_t row, std::string_view bytes);
// Up to `size` bytes from `begin`; fewer at the end of the file.
Result<std::string> read_file_range(SqliteDatabase& sqlite, std::int64_t row, std::int64_t begin,
                                    std::int64_t size);
// kResourceExhausted where so many bytes more are beyond the quota of all files.
Status check_quota(BatchDatabase& database, std::uint64_t more_bytes);

}  // namespace quire
