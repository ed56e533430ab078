// What the Files and Batch API keeps: the values that its parts hand to each other, and its limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

struct BatchLimits {
  std::uint64_t max_file_bytes = 64ULL << 20;  // of one upload, which is in memory while it comes
  std::uint64_t max_download_bytes = 256ULL << 20;  // of one answer; more is read by ranges
  std::uint64_t max_total_bytes = 4ULL << 30;       // of the contents of all files
  // Of the database itself, its bookkeeping included; SQLite keeps to it.
  std::uint64_t max_database_bytes = 6ULL << 30;
  std::int64_t max_files = 10'000;
  std::int64_t max_batches = 10'000;  // the oldest that ended are forgotten beyond that
  std::int64_t max_active_batches = 1'000;
  std::int64_t max_lines = 50'000;               // of one batch
  std::uint64_t max_line_bytes = 4ULL << 20;     // of one line of an input file
  std::uint64_t max_result_bytes = 16ULL << 20;  // of the answer to one line
  int max_lines_in_flight = 32;                  // of all batches
  std::int64_t completion_window_s = 24 * 3600;
};

// Times are Unix times in seconds.
struct FileInfo {
  std::int64_t row = 0;  // the database's own name of it
  std::string id;        // "file-..."
  std::string filename;
  std::string purpose;  // "batch" or "batch_output"
  std::int64_t bytes = 0;
  std::int64_t created_at = 0;
  std::optional<std::int64_t> expires_at;
};

// The statuses of OpenAI's schema.
namespace batch_status {
inline constexpr std::string_view kValidating = "validating";
inline constexpr std::string_view kFailed = "failed";
inline constexpr std::string_view kInProgress = "in_progress";
inline constexpr std::string_view kCompleted = "completed";
inline constexpr std::string_view kExpired = "expired";
inline constexpr std::string_view kCancelling = "cancelling";
inline constexpr std::string_view kCancelled = "cancelled";
}  // namespace batch_status

struct BatchUsage {
  std::int64_t input_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t output_tokens = 0;
  std::int64_t reasoning_tokens = 0;
};

struct BatchInfo {
  std::int64_t row = 0;
  std::string id;  // "batch_..."
  std::string endpoint;
  std::string input_file_id;
  std::string status;
  std::string metadata;               // JSON; "null" where none was given
  std::optional<std::string> errors;  // JSON: the list of OpenAI's "errors.data"
  std::optional<std::string> output_file_id;
  std::optional<std::string> error_file_id;
  std::int64_t created_at = 0;
  std::int64_t expires_at = 0;
  std::optional<std::int64_t> in_progress_at;
  std::optional<std::int64_t> finalizing_at;
  std::optional<std::int64_t> completed_at;
  std::optional<std::int64_t> failed_at;
  std::optional<std::int64_t> expired_at;
  std::optional<std::int64_t> cancelling_at;
  std::optional<std::int64_t> cancelled_at;
  std::int64_t total = 0;
  std::int64_t completed = 0;
  std::int64_t failed = 0;
  BatchUsage usage;
};

// Where one line of an input file lies.
struct BatchInputLine {
  std::int64_t line = 0;  // from 1, blank lines counted
  std::string custom_id;
  std::int64_t begin = 0;  // byte in the file
  std::int64_t size = 0;
};

// What became of one line: a line of the output file or of the error file.
struct LineResult {
  std::int64_t batch_row = 0;
  std::int64_t line = 0;
  bool succeeded = false;
  std::string record;  // ends with '\n'
  BatchUsage usage;
};

template <typename T>
struct Page {
  std::vector<T> items;
  bool has_more = false;
};

}  // namespace quire
