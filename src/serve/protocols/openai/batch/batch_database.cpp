#include "serve/protocols/openai/batch/batch_database.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::int64_t kSchemaVersion = 1;

constexpr const char* kSchema = R"sql(
CREATE TABLE files (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  filename TEXT NOT NULL,
  purpose TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  published INTEGER NOT NULL
);
CREATE TABLE file_pieces (
  file INTEGER NOT NULL REFERENCES files(row) ON DELETE CASCADE,
  begin INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (file, begin)
);
CREATE TABLE batches (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  endpoint TEXT NOT NULL,
  input_file_id TEXT NOT NULL,
  status TEXT NOT NULL,
  metadata TEXT NOT NULL,
  errors TEXT,
  output_file_id TEXT,
  error_file_id TEXT,
  output_file INTEGER,
  error_file INTEGER,
  output_expires_after INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  in_progress_at INTEGER,
  finalizing_at INTEGER,
  completed_at INTEGER,
  failed_at INTEGER,
  expired_at INTEGER,
  cancelling_at INTEGER,
  cancelled_at INTEGER,
  total INTEGER NOT NULL DEFAULT 0,
  completed INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  cached_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX batches_by_status ON batches(status);
CREATE TABLE batch_lines (
  batch INTEGER NOT NULL REFERENCES batches(row) ON DELETE CASCADE,
  line INTEGER NOT NULL,
  custom_id TEXT NOT NULL,
  begin INTEGER NOT NULL,
  size INTEGER NOT NULL,
  done INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (batch, line),
  UNIQUE (batch, custom_id)
) WITHOUT ROWID;
PRAGMA user_version = 1;
)sql";

Status prepare_schema(SqliteDatabase& sqlite, const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t version, sqlite.query_int("PRAGMA user_version"));
  if (version == kSchemaVersion) return {};
  if (version != 0) {
    return Status::config(fmt::format("{}: the database has schema version {}, this program knows "
                                      "up to {}",
                                      path.string(), version, kSchemaVersion),
                          "use the program that wrote it, or another database");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t num_tables,
                         sqlite.query_int("SELECT count(*) FROM sqlite_schema"));
  if (num_tables != 0) {
    return Status::config(fmt::format("{}: this is a database of another program", path.string()),
                          "name another file");
  }
  QUIRE_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::begin(sqlite));
  QUIRE_RETURN_IF_ERROR(sqlite.execute(kSchema));
  return transaction.commit();
}

}  // namespace

Result<std::unique_ptr<BatchDatabase>> BatchDatabase::open(const std::filesystem::path& path,
                                                           const BatchLimits& limits) {
  QUIRE_ASSIGN_OR_RETURN(SqliteDatabase sqlite, SqliteDatabase::open(path));
  QUIRE_RETURN_IF_ERROR(prepare_schema(sqlite, path));
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t page_size, sqlite.query_int("PRAGMA page_size"));
  const auto max_pages = static_cast<std::int64_t>(limits.max_database_bytes) / page_size;
  QUIRE_RETURN_IF_ERROR(
      sqlite.execute(fmt::format("PRAGMA max_page_count = {}", max_pages).c_str()));
  return std::unique_ptr<BatchDatabase>(
      new BatchDatabase{.mutex = {},
                        .sqlite = std::move(sqlite),
                        .limits = limits,
                        .reserve = DiskReserve(path.string() + "-reserve")});
}

std::string new_object_id(std::string_view prefix) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}{:08x}", prefix, random(), random(), random(), random());
}

Result<std::int64_t> insert_file(SqliteDatabase& sqlite, const FileInfo& file, bool published) {
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      sqlite.prepare("INSERT INTO files(id, filename, purpose, bytes, created_at, expires_at, "
                     "published) VALUES (?, ?, ?, 0, ?, ?, ?)"));
  insert.bind(1, std::string_view(file.id))
      .bind(2, std::string_view(file.filename))
      .bind(3, std::string_view(file.purpose))
      .bind(4, file.created_at)
      .bind(5, file.expires_at)
      .bind(6, std::int64_t{published ? file_state::kPublished : file_state::kWriting});
  QUIRE_RETURN_IF_ERROR(insert.run());
  return sqlite.last_insert_id();
}

Status append_to_file(SqliteDatabase& sqlite, std::int64_t row, std::string_view bytes) {
  QUIRE_ASSIGN_OR_RETURN(SqliteStatement insert,
                         sqlite.prepare("INSERT INTO file_pieces(file, begin, data) "
                                        "SELECT row, bytes, ?2 FROM files WHERE row = ?1"));
  QUIRE_RETURN_IF_ERROR(insert.bind(1, row).bind_blob(2, bytes).run());
  QUIRE_ASSIGN_OR_RETURN(SqliteStatement grow,
                         sqlite.prepare("UPDATE files SET bytes = bytes + ?2 WHERE row = ?1"));
  return grow.bind(1, row).bind(2, static_cast<std::int64_t>(bytes.size())).run();
}

Result<std::string> read_file_range(SqliteDatabase& sqlite, std::int64_t row, std::int64_t begin,
                                    std::int64_t size) {
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement select,
      sqlite.prepare("SELECT begin, data FROM file_pieces WHERE file = ?1 AND begin < ?3 AND "
                     "begin >= (SELECT max(begin) FROM file_pieces WHERE file = ?1 AND "
                     "begin <= ?2) ORDER BY begin"));
  select.bind(1, row).bind(2, begin).bind(3, begin + size);
  std::string out;
  out.reserve(static_cast<std::size_t>(size));
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const bool more, select.step());
    if (!more) return out;
    const std::int64_t piece_begin = select.column_int(0);
    std::string_view piece = select.column_text(1);
    if (piece_begin < begin) {
      piece.remove_prefix(std::min(piece.size(), static_cast<std::size_t>(begin - piece_begin)));
    }
    out += piece.substr(0, static_cast<std::size_t>(size) - out.size());
  }
}

Status check_quota(BatchDatabase& database, std::uint64_t more_bytes) {
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t used,
                         database.sqlite.query_int("SELECT coalesce(sum(bytes), 0) FROM files"));
  if (static_cast<std::uint64_t>(used) + more_bytes > database.limits.max_total_bytes) {
    return Status::resource_exhausted(
        fmt::format("files take {} of {} bytes; there is no room for {} more", used,
                    database.limits.max_total_bytes, more_bytes),
        "delete files that are not needed any more");
  }
  return {};
}

}  // namespace quire
