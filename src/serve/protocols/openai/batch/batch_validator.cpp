#include "serve/protocols/openai/batch/batch_validator.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::int64_t kReadBytes = 256 * 1024;
constexpr std::size_t kMaxErrors = 100;
constexpr std::size_t kLinesPerTransaction = 1000;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

class Validation {
 public:
  Validation(const BatchInfo& batch, BatchStore& batches, const BatchLimits& limits)
      : batch_(batch), batches_(batches), limits_(limits) {}

  // The next piece of the file.
  Status take(std::string_view piece) {
    while (!piece.empty()) {
      const std::size_t end = piece.find('\n');
      const std::size_t size = std::min(end, piece.size());
      // No more of a line that is too long is kept than is needed to see that it is.
      if (line_.size() <= limits_.max_line_bytes) line_ += piece.substr(0, size);
      line_size_ += static_cast<std::int64_t>(size);
      piece.remove_prefix(size);
      if (end == std::string_view::npos) break;
      piece.remove_prefix(1);
      QUIRE_RETURN_IF_ERROR(end_line());
    }
    return {};
  }

  bool enough() const { return errors_.size() >= kMaxErrors || over_; }

  Status end(std::int64_t now) {
    if (line_size_ > 0 && !enough()) QUIRE_RETURN_IF_ERROR(end_line());
    QUIRE_RETURN_IF_ERROR(flush());
    if (total_ == 0 && errors_.empty())
      add_error({"empty_file", "The file has no requests.", {}, {}});
    if (errors_.empty()) return batches_.start(batch_.row, total_, now);
    std::ranges::stable_sort(errors_, {},
                             [](const BatchLineError& error) { return error.line.value_or(0); });
    json::array list;
    for (const BatchLineError& error : errors_) list.push_back(error.to_json());
    return batches_.fail(batch_.row, json::serialize(list), now);
  }

 private:
  void add_error(BatchLineError error) {
    if (errors_.size() < kMaxErrors) errors_.push_back(std::move(error));
  }

  Status end_line() {
    ++line_number_;
    const std::int64_t begin = std::exchange(begin_, begin_ + line_size_ + 1);
    const std::int64_t size = std::exchange(line_size_, 0);
    const std::string text = std::exchange(line_, {});
    if (text.size() > limits_.max_line_bytes) {
      add_error({"line_too_long",
                 fmt::format("This line is longer than {} bytes.", limits_.max_line_bytes),
                 {},
                 line_number_});
      return {};
    }
    if (is_blank(text)) return {};
    if (++total_ > limits_.max_lines) {
      over_ = true;
      add_error({"too_many_requests",
                 fmt::format("The file has more than {} requests.", limits_.max_lines),
                 {},
                 line_number_});
      return {};
    }
    auto parsed = parse_batch_input_line(text, batch_.endpoint);
    if (auto* error = std::get_if<BatchLineError>(&parsed)) {
      error->line = line_number_;
      add_error(std::move(*error));
      return {};
    }
    lines_.push_back({.line = line_number_,
                      .custom_id = std::move(std::get<BatchLineRequest>(parsed).custom_id),
                      .begin = begin,
                      .size = size});
    return lines_.size() < kLinesPerTransaction ? Status() : flush();
  }

  Status flush() {
    QUIRE_ASSIGN_OR_RETURN(const auto duplicates, batches_.add_lines(batch_.row, lines_));
    for (const std::int64_t line : duplicates) {
      add_error({"duplicate_custom_id",
                 "The custom_id of this line stands in an earlier one as well; each has to be "
                 "unique in a batch.",
                 "custom_id", line});
    }
    lines_.clear();
    return {};
  }

  const BatchInfo& batch_;
  BatchStore& batches_;
  const BatchLimits& limits_;
  std::string line_;              // of the current line, what has come
  std::int64_t line_size_ = 0;    // of the current line, all that has come
  std::int64_t line_number_ = 0;  // of the last line that ended
  std::int64_t begin_ = 0;        // of the current line
  std::int64_t total_ = 0;
  bool over_ = false;
  std::vector<BatchInputLine> lines_;  // not yet written
  std::vector<BatchLineError> errors_;
};

}  // namespace

Status validate_batch(const BatchInfo& batch, FileStore& files, BatchStore& batches,
                      const BatchLimits& limits, std::int64_t now, const std::atomic<bool>& stop) {
  QUIRE_RETURN_IF_ERROR(batches.begin_validation(batch.row));
  QUIRE_ASSIGN_OR_RETURN(const FileInfo file, files.get(batch.input_file_id));
  Validation validation(batch, batches, limits);
  for (std::int64_t at = 0; at < file.bytes && !validation.enough(); at += kReadBytes) {
    if (stop) return Status(StatusCode::kCancelled, "the server is shutting down");
    QUIRE_ASSIGN_OR_RETURN(const std::string piece, files.read(file, at, kReadBytes));
    QUIRE_RETURN_IF_ERROR(validation.take(piece));
  }
  return validation.end(now);
}

}  // namespace quire
