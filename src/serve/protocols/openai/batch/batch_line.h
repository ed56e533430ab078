// The lines of batch files: what a line of the input asks for, and the record that becomes a line
// of the output or of the error file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/json.h"
#include "serve/http/message.h"
#include "serve/protocols/openai/batch/batch_types.h"

namespace quire {

// Why an input file does not validate: one item of a batch's "errors".
struct BatchLineError {
  std::string code;  // "invalid_json_line", ...
  std::string message;
  std::optional<std::string> param;
  std::optional<std::int64_t> line;

  json::object to_json() const;
};

struct BatchLineRequest {
  std::string custom_id;
  std::string_view body;  // the JSON object of the request, byte for byte; a view into the line
  bool stream = false;    // it asks for a stream, which no batch has
};

// A line without its line end; all of its requests go to `endpoint`. The error has no line number.
std::variant<BatchLineRequest, BatchLineError> parse_batch_input_line(std::string_view text,
                                                                      std::string_view endpoint);

// The name of a line's request, the same however often it is run.
std::string batch_request_id(std::string_view batch_id, std::int64_t line);

// The record of an answered line; status 200 stands in the output file, all others in the error
// file.
std::string response_record(std::string_view request_id, std::string_view custom_id,
                            const HttpResponse& response);
// The record of a line that was never answered.
std::string unanswered_record(std::string_view request_id, std::string_view custom_id,
                              std::string_view code, std::string_view message);

// What an answer says that it used; zeros where it says nothing.
BatchUsage read_usage(const json::value& answer);

}  // namespace quire
