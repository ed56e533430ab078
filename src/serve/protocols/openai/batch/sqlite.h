// SQLite's C interface with owners and error values: a database that one process alone may use, its
// statements and transactions. Not thread-safe; who shares one locks around it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace quire {

// One prepared statement. Parameters are numbered from 1, columns from 0. The first error of a
// bind_... is kept and given by the next step.
class SqliteStatement {
 public:
  SqliteStatement(SqliteStatement&&) noexcept = default;
  SqliteStatement& operator=(SqliteStatement&&) noexcept = default;

  SqliteStatement& bind(int index, std::int64_t value);
  SqliteStatement& bind(int index, std::string_view text);
  SqliteStatement& bind(int index, std::optional<std::int64_t> value);
  SqliteStatement& bind_blob(int index, std::string_view bytes);

  Result<bool> step();  // true: there is a row
  Status run();         // steps to the end, then can be bound and run again
  void reset();         // ready to be bound and stepped again

  std::int64_t column_int(int column) const;
  std::optional<std::int64_t> column_optional_int(int column) const;
  std::string_view column_text(int column) const;  // or blob; valid until the next step
  std::optional<std::string> column_optional_text(int column) const;

 private:
  friend class SqliteDatabase;
  explicit SqliteStatement(sqlite3_stmt* statement) : statement_(statement) {}

  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  void keep_error(int rc);

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bind_error_ = 0;
};

class SqliteDatabase {
 public:
  // Opens or creates the file, readable by its owner alone, with a write-ahead log that is synced
  // at each commit, and locks it for the life of this object. kUnavailable naming the file where
  // another process has it; kIoError otherwise.
  static Result<SqliteDatabase> open(const std::filesystem::path& path);

  Status execute(const char* sql);
  Result<SqliteStatement> prepare(std::string_view sql);
  // The one integer that `sql` asks for.
  Result<std::int64_t> query_int(std::string_view sql);

  std::int64_t last_insert_id() const;
  std::int64_t num_changes() const;  // rows that the last statement changed

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  explicit SqliteDatabase(sqlite3* database) : database_(database) {}

  std::unique_ptr<sqlite3, Close> database_;
};

// Everything between its begin and its commit happens, or nothing does. Rolls back when it goes out
// of scope without a commit.
class SqliteTransaction {
 public:
  static Result<SqliteTransaction> begin(SqliteDatabase& database);
  SqliteTransaction(SqliteTransaction&& other) noexcept;
  SqliteTransaction& operator=(SqliteTransaction&&) = delete;
  ~SqliteTransaction();

  Status commit();

 private:
  explicit SqliteTransaction(SqliteDatabase& database) : database_(&database) {}

  SqliteDatabase* database_;  // null: over
};

}  // namespace quire
