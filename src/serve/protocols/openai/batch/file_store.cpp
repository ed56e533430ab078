#include "serve/protocols/openai/batch/file_store.h"

#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace quire {
namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;

constexpr std::string_view kFileColumns =
    "row, id, filename, purpose, bytes, created_at, expires_at FROM files ";

FileInfo file_of_row(const SqliteStatement& row) {
  return {.row = row.column_int(0),
          .id = std::string(row.column_text(1)),
          .filename = std::string(row.column_text(2)),
          .purpose = std::string(row.column_text(3)),
          .bytes = row.column_int(4),
          .created_at = row.column_int(5),
          .expires_at = row.column_optional_int(6)};
}

Result<FileInfo> find_file(SqliteDatabase& sqlite, std::string_view id) {
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement select,
      sqlite.prepare(fmt::format("SELECT {} WHERE id = ? AND published = 1", kFileColumns)));
  QUIRE_ASSIGN_OR_RETURN(const bool found, select.bind(1, id).step());
  if (!found) return Status::not_found(fmt::format("No such File object: {}", id.substr(0, 100)));
  return file_of_row(select);
}

Status run_once(SqliteDatabase& sqlite, const char* sql, std::int64_t parameter) {
  QUIRE_ASSIGN_OR_RETURN(SqliteStatement statement, sqlite.prepare(sql));
  return statement.bind(1, parameter).run();
}

}  // namespace

Result<FileInfo> FileStore::create(FileInfo file, std::string_view content) {
  const std::lock_guard lock(database_.mutex);
  SqliteDatabase& sqlite = database_.sqlite;
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t num_files,
                         sqlite.query_int("SELECT count(*) FROM files"));
  if (num_files >= database_.limits.max_files) {
    return Status::resource_exhausted(
        fmt::format("there are {} files, which is the limit", num_files),
        "delete files that are not needed any more");
  }
  QUIRE_RETURN_IF_ERROR(check_quota(database_, content.size()));
  file.id = new_object_id("file-");
  file.bytes = static_cast<std::int64_t>(content.size());
  QUIRE_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::begin(sqlite));
  QUIRE_ASSIGN_OR_RETURN(file.row, insert_file(sqlite, file, /*published=*/true));
  while (!content.empty()) {
    const std::string_view piece = content.substr(0, kPieceBytes);
    QUIRE_RETURN_IF_ERROR(append_to_file(sqlite, file.row, piece));
    content.remove_prefix(piece.size());
  }
  QUIRE_RETURN_IF_ERROR(transaction.commit());
  return file;
}

Result<FileInfo> FileStore::get(std::string_view id) {
  const std::lock_guard lock(database_.mutex);
  return find_file(database_.sqlite, id);
}

Result<Page<FileInfo>> FileStore::list(const FileListQuery& query) {
  const std::lock_guard lock(database_.mutex);
  std::optional<std::int64_t> after;
  if (query.after) {
    const auto last = find_file(database_.sqlite, *query.after);
    if (!last.ok()) return Status::invalid_argument("after: " + last.status().message());
    after = last->row;
  }
  const char* const order = query.ascending ? "(?1 IS NULL OR row > ?1) ORDER BY row"
                                            : "(?1 IS NULL OR row < ?1) ORDER BY row DESC";
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_.sqlite.prepare(fmt::format("SELECT {} WHERE published = 1 AND (?2 = '' OR purpose "
                                           "= ?2) AND {} LIMIT ?3",
                                           kFileColumns, order)));
  select.bind(1, after).bind(2, std::string_view(query.purpose ? *query.purpose : std::string()));
  select.bind(3, query.limit + 1);
  Page<FileInfo> page;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return page;
    if (std::ssize(page.items) == query.limit) {
      page.has_more = true;
      return page;
    }
    page.items.push_back(file_of_row(select));
  }
}

Result<std::string> FileStore::read(const FileInfo& file, std::int64_t begin, std::int64_t size) {
  const std::lock_guard lock(database_.mutex);
  return read_file_range(database_.sqlite, file.row, begin, size);
}

Status FileStore::remove(std::string_view id) {
  const std::lock_guard lock(database_.mutex);
  SqliteDatabase& sqlite = database_.sqlite;
  QUIRE_ASSIGN_OR_RETURN(const FileInfo file, find_file(sqlite, id));
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement readers,
      sqlite.prepare("SELECT id FROM batches WHERE input_file_id = ? AND status IN "
                     "('validating', 'in_progress', 'cancelling')"));
  QUIRE_ASSIGN_OR_RETURN(const bool used, readers.bind(1, id).step());
  if (used) {
    return Status::unavailable(
        fmt::format("{} is the input of {}, which has not ended", file.id, readers.column_text(0)),
        "cancel the batch or wait for its end");
  }
  readers.reset();
  QUIRE_RETURN_IF_ERROR(write_on_full_disk(0, [&] {
    return run_once(sqlite, "UPDATE files SET published = -1, bytes = 0 WHERE row = ?", file.row);
  }));
  // From here on it is deleted; what cannot be freed now is freed later.
  if (const Status freed = free_deleted(); !freed.ok()) {
    log_warning("files: the room of a deleted file is not free yet: {}", freed.to_string());
  }
  return {};
}

Status FileStore::remove_expired(std::int64_t now) {
  const std::lock_guard lock(database_.mutex);
  SqliteDatabase& sqlite = database_.sqlite;
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement expired,
      sqlite.prepare(
          "SELECT row FROM files WHERE published = 1 AND expires_at <= ? AND id NOT IN (SELECT "
          "input_file_id FROM batches WHERE status IN ('validating', 'in_progress', "
          "'cancelling')) LIMIT 1"));
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const bool found, expired.bind(1, now).step());
    if (!found) break;
    const std::int64_t row = expired.column_int(0);
    expired.reset();
    QUIRE_RETURN_IF_ERROR(write_on_full_disk(0, [&] {
      return run_once(sqlite, "UPDATE files SET published = -1, bytes = 0 WHERE row = ?", row);
    }));
  }
  expired.reset();
  return free_deleted();
}

// In transactions of a few pages each, whatever a file's size, and with half of the reserve: the
// other half is for deletions to come where the disk stays full all the same.
Status FileStore::free_deleted() {
  constexpr std::int64_t kKept = DiskReserve::kBytes / 2;
  SqliteDatabase& sqlite = database_.sqlite;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(
        const std::int64_t row,
        sqlite.query_int("SELECT coalesce(min(row), 0) FROM files WHERE published = -1"));
    if (row == 0) break;
    std::int64_t num_freed = 0;
    QUIRE_RETURN_IF_ERROR(write_on_full_disk(kKept, [&] {
      const Status status =
          run_once(sqlite,
                   "DELETE FROM file_pieces WHERE file = ?1 AND begin IN (SELECT begin FROM "
                   "file_pieces WHERE file = ?1 ORDER BY begin DESC LIMIT 16)",
                   row);
      num_freed = sqlite.num_changes();
      return status;
    }));
    // The contents of the log go into the database's own pages, so that the log begins anew.
    if (reserve_used_) QUIRE_RETURN_IF_ERROR(sqlite.execute("PRAGMA wal_checkpoint"));
    if (num_freed > 0) continue;
    QUIRE_RETURN_IF_ERROR(write_on_full_disk(
        kKept, [&] { return run_once(sqlite, "DELETE FROM files WHERE row = ?", row); }));
  }
  if (!reserve_used_) return {};
  QUIRE_RETURN_IF_ERROR(sqlite.execute("PRAGMA wal_checkpoint(TRUNCATE)"));
  database_.reserve.refill();
  reserve_used_ = false;
  return {};
}

Status FileStore::write_on_full_disk(std::int64_t keep, const std::function<Status()>& write) {
  while (true) {
    const Status status = write();
    const bool no_room = status.code() == StatusCode::kResourceExhausted ||
                         status.code() == StatusCode::kIoError;  // some quotas show as that
    if (!no_room || !database_.reserve.release(keep)) return status;
    reserve_used_ = true;
  }
}

}  // namespace quire
