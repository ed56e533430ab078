#include "serve/protocols/openai/batch/sqlite.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr int kBusyTimeoutMs = 1000;  // for an owner that is just ending

Status sqlite_error(sqlite3* database, int rc) {
  const int kind = rc & 0xFF;
  const char* text = database != nullptr ? sqlite3_errmsg(database) : sqlite3_errstr(rc);
  if (kind == SQLITE_BUSY || kind == SQLITE_LOCKED) {
    return Status::unavailable(fmt::format("the database is in use by another process ({})", text));
  }
  if (kind == SQLITE_FULL) {
    return Status::resource_exhausted("no room for the database: the disk or its quota is full",
                                      "free some space");
  }
  if (kind == SQLITE_CONSTRAINT) return Status::invalid_argument(text);
  return Status::io_error(fmt::format("the database cannot be used: {}", text));
}

// So that no one but the owner can read what clients send; SQLite gives its other files the same
// permissions.
Status create_private_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    return Status::io_error(fmt::format("{}: cannot open the database: {}", path.string(),
                                        std::strerror(errno)),  // NOLINT(concurrency-mt-unsafe)
                            "choose a folder that this user can write to");
  }
  ::close(descriptor);
  return {};
}

}  // namespace

void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void SqliteStatement::keep_error(int rc) {
  if (bind_error_ == SQLITE_OK) bind_error_ = rc;
}

SqliteStatement& SqliteStatement::bind(int index, std::int64_t value) {
  keep_error(sqlite3_bind_int64(statement_.get(), index, value));
  return *this;
}

SqliteStatement& SqliteStatement::bind(int index, std::string_view text) {
  keep_error(sqlite3_bind_text64(statement_.get(), index, text.data() != nullptr ? text.data() : "",
                                 text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

SqliteStatement& SqliteStatement::bind(int index, std::optional<std::int64_t> value) {
  if (value) return bind(index, *value);
  keep_error(sqlite3_bind_null(statement_.get(), index));
  return *this;
}

SqliteStatement& SqliteStatement::bind_blob(int index, std::string_view bytes) {
  keep_error(sqlite3_bind_blob64(statement_.get(), index,
                                 bytes.data() != nullptr ? bytes.data() : "", bytes.size(),
                                 SQLITE_TRANSIENT));
  return *this;
}

Result<bool> SqliteStatement::step() {
  sqlite3* const database = sqlite3_db_handle(statement_.get());
  if (bind_error_ != SQLITE_OK) return sqlite_error(database, bind_error_);
  const int rc = sqlite3_step(statement_.get());
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  return sqlite_error(database, rc);
}

Status SqliteStatement::run() {
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const bool row, step());
    if (!row) break;
  }
  reset();
  return {};
}

void SqliteStatement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
  bind_error_ = SQLITE_OK;
}

std::int64_t SqliteStatement::column_int(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::optional<std::int64_t> SqliteStatement::column_optional_int(int column) const {
  if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::nullopt;
  return column_int(column);
}

std::string_view SqliteStatement::column_text(int column) const {
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {bytes, static_cast<std::size_t>(size)};
}

std::optional<std::string> SqliteStatement::column_optional_text(int column) const {
  if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::nullopt;
  return std::string(column_text(column));
}

void SqliteDatabase::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Result<SqliteDatabase> SqliteDatabase::open(const std::filesystem::path& path) {
  QUIRE_RETURN_IF_ERROR(create_private_file(path));
  sqlite3* raw = nullptr;
  const int rc =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  SqliteDatabase database(raw);
  const auto named = [&](const Status& status) {
    return Status(status.code(), fmt::format("{}: {}", path.string(), status.message()),
                  status.code() == StatusCode::kUnavailable
                      ? "stop the other server, or give this one a database of its own"
                      : status.remedy());
  };
  if (rc != SQLITE_OK) return named(sqlite_error(raw, rc));
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  // In exclusive mode the lock that the first transaction gets is kept until the end, however the
  // process ends.
  const Status status = database.execute(
      "PRAGMA locking_mode = EXCLUSIVE;"
      "PRAGMA journal_mode = WAL;"
      "PRAGMA synchronous = FULL;"
      "PRAGMA foreign_keys = ON;"
      "PRAGMA temp_store = MEMORY;"
      "PRAGMA journal_size_limit = 67108864;"
      "BEGIN EXCLUSIVE;"
      "COMMIT;");
  if (!status.ok()) return named(status);
  return database;
}

Status SqliteDatabase::execute(const char* sql) {
  const int rc = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  return rc == SQLITE_OK ? Status() : sqlite_error(database_.get(), rc);
}

Result<SqliteStatement> SqliteDatabase::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int rc = sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()),
                                    &statement, nullptr);
  if (rc != SQLITE_OK) return sqlite_error(database_.get(), rc);
  return SqliteStatement(statement);
}

Result<std::int64_t> SqliteDatabase::query_int(std::string_view sql) {
  QUIRE_ASSIGN_OR_RETURN(SqliteStatement statement, prepare(sql));
  QUIRE_ASSIGN_OR_RETURN(const bool row, statement.step());
  if (!row) return Status::internal("the database gave no row where there has to be one");
  return statement.column_int(0);
}

std::int64_t SqliteDatabase::last_insert_id() const {
  return sqlite3_last_insert_rowid(database_.get());
}

std::int64_t SqliteDatabase::num_changes() const { return sqlite3_changes64(database_.get()); }

Result<SqliteTransaction> SqliteTransaction::begin(SqliteDatabase& database) {
  QUIRE_RETURN_IF_ERROR(database.execute("BEGIN IMMEDIATE"));
  return SqliteTransaction(database);
}

SqliteTransaction::SqliteTransaction(SqliteTransaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)) {}

SqliteTransaction::~SqliteTransaction() {
  // A full disk may have rolled it back already; that it is over is all that matters here.
  if (database_ != nullptr) (void)database_->execute("ROLLBACK");
}

Status SqliteTransaction::commit() {
  QUIRE_RETURN_IF_ERROR(database_->execute("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace quire
