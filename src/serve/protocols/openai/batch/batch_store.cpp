#include "serve/protocols/openai/batch/batch_store.h"

#include <utility>

#include <fmt/format.h>

#include "base/log.h"

namespace quire {
namespace {

constexpr std::string_view kActive = "('validating', 'in_progress', 'cancelling')";

constexpr std::string_view kBatchColumns =
    "row, id, endpoint, input_file_id, status, metadata, errors, output_file_id, error_file_id, "
    "created_at, expires_at, in_progress_at, finalizing_at, completed_at, failed_at, expired_at, "
    "cancelling_at, cancelled_at, total, completed, failed, input_tokens, cached_tokens, "
    "output_tokens, reasoning_tokens FROM batches ";

BatchInfo batch_of_row(const SqliteStatement& row) {
  return {.row = row.column_int(0),
          .id = std::string(row.column_text(1)),
          .endpoint = std::string(row.column_text(2)),
          .input_file_id = std::string(row.column_text(3)),
          .status = std::string(row.column_text(4)),
          .metadata = std::string(row.column_text(5)),
          .errors = row.column_optional_text(6),
          .output_file_id = row.column_optional_text(7),
          .error_file_id = row.column_optional_text(8),
          .created_at = row.column_int(9),
          .expires_at = row.column_int(10),
          .in_progress_at = row.column_optional_int(11),
          .finalizing_at = row.column_optional_int(12),
          .completed_at = row.column_optional_int(13),
          .failed_at = row.column_optional_int(14),
          .expired_at = row.column_optional_int(15),
          .cancelling_at = row.column_optional_int(16),
          .cancelled_at = row.column_optional_int(17),
          .total = row.column_int(18),
          .completed = row.column_int(19),
          .failed = row.column_int(20),
          .usage = {.input_tokens = row.column_int(21),
                    .cached_tokens = row.column_int(22),
                    .output_tokens = row.column_int(23),
                    .reasoning_tokens = row.column_int(24)}};
}

Result<BatchInfo> find_batch(SqliteDatabase& sqlite, std::string_view id) {
  QUIRE_ASSIGN_OR_RETURN(SqliteStatement select,
                         sqlite.prepare(fmt::format("SELECT {} WHERE id = ?", kBatchColumns)));
  QUIRE_ASSIGN_OR_RETURN(const bool found, select.bind(1, id).step());
  if (!found) return Status::not_found(fmt::format("No such Batch object: {}", id.substr(0, 100)));
  return batch_of_row(select);
}

Result<std::vector<BatchInfo>> batches_of_rows(SqliteStatement select) {
  std::vector<BatchInfo> batches;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const bool row, select.step());
    if (!row) return batches;
    batches.push_back(batch_of_row(select));
  }
}

}  // namespace

// Under the lock, within the transaction that inserts the batch.
Status BatchStore::make_room_for_batch() {
  SqliteDatabase& sqlite = database_.sqlite;
  QUIRE_ASSIGN_OR_RETURN(
      const std::int64_t num_active,
      sqlite.query_int(fmt::format("SELECT count(*) FROM batches WHERE status IN {}", kActive)));
  if (num_active >= database_.limits.max_active_batches) {
    return Status::resource_exhausted(
        fmt::format("{} batches have not ended, which is the limit", num_active),
        "wait for one of them or cancel it");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t num_batches,
                         sqlite.query_int("SELECT count(*) FROM batches"));
  if (num_batches < database_.limits.max_batches) return {};
  QUIRE_RETURN_IF_ERROR(sqlite.execute(
      fmt::format(
          "DELETE FROM batches WHERE row IN (SELECT row FROM batches WHERE status NOT IN {} "
          "ORDER BY row LIMIT {})",
          kActive, num_batches - database_.limits.max_batches + 1)
          .c_str()));
  log_info("the oldest batch that ended was forgotten: {} are kept", database_.limits.max_batches);
  return {};
}

Result<BatchInfo> BatchStore::create(const NewBatch& batch, std::int64_t now) {
  const std::lock_guard lock(database_.mutex);
  SqliteDatabase& sqlite = database_.sqlite;
  QUIRE_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::begin(sqlite));
  QUIRE_RETURN_IF_ERROR(make_room_for_batch());
  const std::string id = new_object_id("batch_");
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      sqlite.prepare("INSERT INTO batches(id, endpoint, input_file_id, status, metadata, "
                     "output_expires_after, created_at, expires_at) SELECT ?1, ?2, id, "
                     "'validating', ?4, ?5, ?6, ?7 FROM files WHERE id = ?3 AND published = 1"));
  insert.bind(1, std::string_view(id))
      .bind(2, std::string_view(batch.endpoint))
      .bind(3, std::string_view(batch.input_file_id))
      .bind(4, std::string_view(batch.metadata))
      .bind(5, batch.output_expires_after)
      .bind(6, now)
      .bind(7, now + database_.limits.completion_window_s);
  QUIRE_RETURN_IF_ERROR(insert.run());
  if (sqlite.num_changes() == 0) {
    return Status::not_found(fmt::format("No such File object: {}", batch.input_file_id));
  }
  QUIRE_RETURN_IF_ERROR(transaction.commit());
  return find_batch(sqlite, id);
}

Result<BatchInfo> BatchStore::get(std::string_view id) {
  const std::lock_guard lock(database_.mutex);
  return find_batch(database_.sqlite, id);
}

Result<Page<BatchInfo>> BatchStore::list(const std::optional<std::string>& after,
                                         std::int64_t limit) {
  const std::lock_guard lock(database_.mutex);
  SqliteDatabase& sqlite = database_.sqlite;
  std::optional<std::int64_t> after_row;
  if (after) {
    const auto last = find_batch(sqlite, *after);
    if (!last.ok()) return Status::invalid_argument("after: " + last.status().message());
    after_row = last->row;
  }
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement select,
      sqlite.prepare(fmt::format(
          "SELECT {} WHERE ?1 IS NULL OR row < ?1 ORDER BY row DESC LIMIT ?2", kBatchColumns)));
  select.bind(1, after_row).bind(2, limit + 1);
  Page<BatchInfo> page;
  QUIRE_ASSIGN_OR_RETURN(page.items, batches_of_rows(std::move(select)));
  page.has_more = std::ssize(page.items) > limit;
  if (page.has_more) page.items.pop_back();
  return page;
}

Result<BatchInfo> BatchStore::cancel(std::string_view id, std::int64_t now) {
  const std::lock_guard lock(database_.mutex);
  SqliteDatabase& sqlite = database_.sqlite;
  QUIRE_ASSIGN_OR_RETURN(const BatchInfo batch, find_batch(sqlite, id));
  if (batch.status == batch_status::kCancelling) return batch;
  if (batch.status != batch_status::kValidating && batch.status != batch_status::kInProgress) {
    return Status::unavailable(
        fmt::format("Cannot cancel a batch with status '{}'.", batch.status));
  }
  QUIRE_ASSIGN_OR_RETURN(SqliteStatement update,
                         sqlite.prepare("UPDATE batches SET status = 'cancelling', cancelling_at = "
                                        "?2 WHERE row = ?1"));
  QUIRE_RETURN_IF_ERROR(update.bind(1, batch.row).bind(2, now).run());
  return find_batch(sqlite, id);
}

Result<std::vector<BatchInfo>> BatchStore::active() {
  const std::lock_guard lock(database_.mutex);
  QUIRE_ASSIGN_OR_RETURN(SqliteStatement select,
                         database_.sqlite.prepare(fmt::format(
                             "SELECT {} WHERE status IN {} ORDER BY row", kBatchColumns, kActive)));
  return batches_of_rows(std::move(select));
}

Status BatchStore::begin_validation(std::int64_t row) {
  const std::lock_guard lock(database_.mutex);
  QUIRE_ASSIGN_OR_RETURN(SqliteStatement erase,
                         database_.sqlite.prepare("DELETE FROM batch_lines WHERE batch = ?"));
  return erase.bind(1, row).run();
}

Result<std::vector<std::int64_t>> BatchStore::add_lines(std::int64_t row,
                                                        std::span<const BatchInputLine> lines) {
  const std::lock_guard lock(database_.mutex);
  SqliteDatabase& sqlite = database_.sqlite;
  std::vector<std::int64_t> duplicates;
  QUIRE_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::begin(sqlite));
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      sqlite.prepare("INSERT OR IGNORE INTO batch_lines(batch, line, custom_id, begin, size) "
                     "VALUES (?, ?, ?, ?, ?)"));
  for (const BatchInputLine& line : lines) {
    insert.bind(1, row)
        .bind(2, line.line)
        .bind(3, std::string_view(line.custom_id))
        .bind(4, line.begin)
        .bind(5, line.size);
    QUIRE_RETURN_IF_ERROR(insert.run());
    if (sqlite.num_changes() == 0) duplicates.push_back(line.line);
  }
  QUIRE_RETURN_IF_ERROR(transaction.commit());
  return duplicates;
}

Status BatchStore::start(std::int64_t row, std::int64_t total, std::int64_t now) {
  const std::lock_guard lock(database_.mutex);
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement update,
      database_.sqlite.prepare("UPDATE batches SET status = 'in_progress', total = ?2, "
                               "in_progress_at = ?3 WHERE row = ?1 AND status = 'validating'"));
  return update.bind(1, row).bind(2, total).bind(3, now).run();
}

Status BatchStore::fail(std::int64_t row, std::string_view errors, std::int64_t now) {
  const std::lock_guard lock(database_.mutex);
  SqliteDatabase& sqlite = database_.sqlite;
  QUIRE_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::begin(sqlite));
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement update,
      sqlite.prepare("UPDATE batches SET status = 'failed', errors = ?2, failed_at = ?3 "
                     "WHERE row = ?1 AND status = 'validating'"));
  QUIRE_RETURN_IF_ERROR(update.bind(1, row).bind(2, errors).bind(3, now).run());
  QUIRE_ASSIGN_OR_RETURN(SqliteStatement erase,
                         sqlite.prepare("DELETE FROM batch_lines WHERE batch = ?"));
  QUIRE_RETURN_IF_ERROR(erase.bind(1, row).run());
  return transaction.commit();
}

Result<std::vector<BatchInputLine>> BatchStore::pending_lines(std::int64_t row, std::int64_t after,
                                                              std::int64_t limit) {
  const std::lock_guard lock(database_.mutex);
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_.sqlite.prepare("SELECT line, custom_id, begin, size FROM batch_lines WHERE batch = "
                               "? AND line > ? AND done = 0 ORDER BY line LIMIT ?"));
  select.bind(1, row).bind(2, after).bind(3, limit);
  std::vector<BatchInputLine> lines;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const bool more, select.step());
    if (!more) return lines;
    lines.push_back({.line = select.column_int(0),
                     .custom_id = std::string(select.column_text(1)),
                     .begin = select.column_int(2),
                     .size = select.column_int(3)});
  }
}

// The file that the result belongs in; it is there from a batch's first result of its kind on.
Result<std::int64_t> BatchStore::result_file(const LineResult& result, std::int64_t now) {
  SqliteDatabase& sqlite = database_.sqlite;
  const std::string_view kind = result.succeeded ? "output" : "error";
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement select,
      sqlite.prepare(fmt::format(
          "SELECT id, output_expires_after, {}_file FROM batches WHERE row = ?", kind)));
  QUIRE_ASSIGN_OR_RETURN(const bool found, select.bind(1, result.batch_row).step());
  if (!found) return Status::internal("a batch has gone while it ran");
  if (const auto file = select.column_optional_int(2)) return *file;
  FileInfo file;
  file.id = new_object_id("file-");
  file.filename = fmt::format("{}_{}.jsonl", select.column_text(0), kind);
  file.purpose = "batch_output";
  file.created_at = now;
  if (const std::int64_t lifetime = select.column_int(1); lifetime > 0) {
    file.expires_at = now + lifetime;
  }
  select.reset();
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t row, insert_file(sqlite, file, /*published=*/false));
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement update,
      sqlite.prepare(fmt::format("UPDATE batches SET {}_file = ?2 WHERE row = ?1", kind)));
  QUIRE_RETURN_IF_ERROR(update.bind(1, result.batch_row).bind(2, row).run());
  return row;
}

Status BatchStore::store_one(const LineResult& result, std::int64_t now) {
  SqliteDatabase& sqlite = database_.sqlite;
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement mark,
      sqlite.prepare("UPDATE batch_lines SET done = 1 WHERE batch = ? AND line = ? AND done = 0"));
  QUIRE_RETURN_IF_ERROR(mark.bind(1, result.batch_row).bind(2, result.line).run());
  if (sqlite.num_changes() == 0) return {};
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t file, result_file(result, now));
  QUIRE_RETURN_IF_ERROR(append_to_file(sqlite, file, result.record));
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement count,
      sqlite.prepare("UPDATE batches SET completed = completed + ?2, failed = failed + 1 - ?2, "
                     "input_tokens = input_tokens + ?3, cached_tokens = cached_tokens + ?4, "
                     "output_tokens = output_tokens + ?5, reasoning_tokens = reasoning_tokens + ?6 "
                     "WHERE row = ?1"));
  count.bind(1, result.batch_row)
      .bind(2, std::int64_t{result.succeeded})
      .bind(3, result.usage.input_tokens)
      .bind(4, result.usage.cached_tokens)
      .bind(5, result.usage.output_tokens)
      .bind(6, result.usage.reasoning_tokens);
  return count.run();
}

Status BatchStore::store(std::span<const LineResult> results, std::int64_t now, bool beyond_quota) {
  const std::lock_guard lock(database_.mutex);
  std::uint64_t bytes = 0;
  for (const LineResult& result : results) bytes += result.record.size();
  if (!beyond_quota) QUIRE_RETURN_IF_ERROR(check_quota(database_, bytes));
  QUIRE_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::begin(database_.sqlite));
  for (const LineResult& result : results) QUIRE_RETURN_IF_ERROR(store_one(result, now));
  return transaction.commit();
}

Status BatchStore::finish(std::int64_t row, std::string_view status, std::int64_t now) {
  const std::lock_guard lock(database_.mutex);
  SqliteDatabase& sqlite = database_.sqlite;
  QUIRE_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::begin(sqlite));
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement publish,
      sqlite.prepare("UPDATE files SET published = 1 WHERE row IN (SELECT output_file FROM batches "
                     "WHERE row = ?1 UNION SELECT error_file FROM batches WHERE row = ?1)"));
  QUIRE_RETURN_IF_ERROR(publish.bind(1, row).run());
  QUIRE_ASSIGN_OR_RETURN(
      SqliteStatement update,
      sqlite.prepare(fmt::format(
          "UPDATE batches SET status = ?2, {0}_at = ?3, finalizing_at = CASE ?2 WHEN 'cancelled' "
          "THEN finalizing_at ELSE ?3 END, "
          "output_file_id = (SELECT id FROM files WHERE row = output_file), "
          "error_file_id = (SELECT id FROM files WHERE row = error_file) WHERE row = ?1",
          status)));
  QUIRE_RETURN_IF_ERROR(update.bind(1, row).bind(2, status).bind(3, now).run());
  QUIRE_ASSIGN_OR_RETURN(SqliteStatement erase,
                         sqlite.prepare("DELETE FROM batch_lines WHERE batch = ?"));
  QUIRE_RETURN_IF_ERROR(erase.bind(1, row).run());
  return transaction.commit();
}

}  // namespace quire
