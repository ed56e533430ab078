// The batches, their lines and what became of them, in the database. Any thread.
//
// A line's result is a piece of the batch's output or error file, and is written by the transaction
// that marks the line done: whenever the process ends, each line has exactly one result or none,
// and those that have none are what is left to do.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "serve/protocols/openai/batch/batch_database.h"
#include "serve/protocols/openai/batch/batch_types.h"

namespace quire {

class BatchStore {
 public:
  // Borrows the database.
  explicit BatchStore(BatchDatabase& database) : database_(database) {}

  struct NewBatch {
    std::string endpoint;
    std::string input_file_id;
    std::string metadata = "null";          // JSON
    std::int64_t output_expires_after = 0;  // seconds after the output's creation; 0: never
  };
  // Durable when it returns. kResourceExhausted where too many are active or the disk is full,
  // kNotFound where the file has gone.
  Result<BatchInfo> create(const NewBatch& batch, std::int64_t now);
  Result<BatchInfo> get(std::string_view id);
  // The latest first. kInvalidArgument for an `after` that is not there.
  Result<Page<BatchInfo>> list(const std::optional<std::string>& after, std::int64_t limit);
  // Does nothing more for one that is cancelling already; kUnavailable for one that has ended.
  Result<BatchInfo> cancel(std::string_view id, std::int64_t now);

  // What the worker does. The batches that have not ended, the oldest first.
  Result<std::vector<BatchInfo>> active();
  // Forgets the lines of a validation that did not come to its end.
  Status begin_validation(std::int64_t row);
  // Keeps lines of a batch in validation. Those whose custom_id stood there before are left out and
  // returned.
  Result<std::vector<std::int64_t>> add_lines(std::int64_t row,
                                              std::span<const BatchInputLine> lines);
  // validating -> in_progress. Nothing happens where the batch was cancelled meanwhile.
  Status start(std::int64_t row, std::int64_t total, std::int64_t now);
  // validating -> failed, with the list of errors as JSON.
  Status fail(std::int64_t row, std::string_view errors, std::int64_t now);
  // Up to `limit` lines after line `after` that have no result.
  Result<std::vector<BatchInputLine>> pending_lines(std::int64_t row, std::int64_t after,
                                                    std::int64_t limit);
  // All of them or none. One whose line is done, or whose batch has ended, is left out.
  // kResourceExhausted beyond the quota (unless `beyond_quota`) and on a full disk.
  Status store(std::span<const LineResult> results, std::int64_t now, bool beyond_quota = false);
  // -> completed, expired or cancelled: publishes the files and forgets the lines.
  Status finish(std::int64_t row, std::string_view status, std::int64_t now);

 private:
  Status store_one(const LineResult& result, std::int64_t now);
  Result<std::int64_t> result_file(const LineResult& result, std::int64_t now);
  Status make_room_for_batch();

  BatchDatabase& database_;
};

}  // namespace quire
