// JSON lines in, JSON lines out: lines of bounded length, one object a line, and the record that
// stands for a line that is no valid request. One form for every command that reads a file of
// requests.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "apps/output_file.h"
#include "base/json.h"
#include "base/status.h"

namespace quire {

// Opens a file to read, or standard input for "-". kNotFound, or kIoError for a folder.
Result<std::unique_ptr<std::istream>> open_input(const std::string& path);

// All of a stream; kResourceExhausted beyond `max_bytes`, kIoError where it cannot be read.
Result<std::string> read_all(std::istream& stream, std::size_t max_bytes);

// Lines of a stream, of bounded length.
class LineReader {
 public:
  static constexpr std::size_t kMaxLineBytes = 16U << 20;

  explicit LineReader(std::istream& stream) : stream_(stream) {}

  // The next line that is not blank, without its newline; nullopt at the end. kInvalidArgument for
  // a line longer than kMaxLineBytes, which is skipped; kIoError, with which the stream ends.
  std::optional<Result<std::string>> next();
  std::int64_t line_number() const { return line_number_; }  // of the line returned last, from 1
  bool last_line_torn() const { return torn_; }              // it ended without a newline
  std::uint64_t bytes_read() const { return bytes_read_; }   // newlines included

 private:
  std::istream& stream_;
  std::int64_t line_number_ = 0;
  bool torn_ = false;
  std::uint64_t bytes_read_ = 0;
};

// A line's object and the id that its record carries: its "id", a string or an integer, else the
// number of the line.
struct JsonLine {
  json::value id;
  json::object object;
};

struct LineError {
  json::value id;
  Status status;
};

// Parses one line. Errors (kInvalidArgument): invalid JSON, not an object, an id of another type.
std::variant<JsonLine, LineError> parse_json_line(std::string_view text, std::int64_t line_number);

// {"id", "line", "error": {"code", "message"}}; without "line" where `line` is 0.
json::object error_record(const json::value& id, std::int64_t line, const Status& error);

struct LineCounts {
  std::int64_t lines = 0;
  std::int64_t errors = 0;
};

// Writes a record for every line: {"id", ...} with what `transform` makes of the line's object, or
// an error record. Only what ends the run is an error: input or output that fails.
Result<LineCounts> transform_lines(
    std::istream& input, OutputFile& output,
    const std::function<Result<json::object>(const JsonReader& line)>& transform);

}  // namespace quire
