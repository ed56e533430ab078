// One line of `quire generate --input`: a JSON object with a prompt and how to continue it.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "core/sampling_params.h"

namespace quire {

// Exactly one of `prompt` (text), `messages` (a chat) or `prompt_token_ids`.
using BatchPrompt = std::variant<std::string, json::array, std::vector<TokenId>>;

struct BatchRequest {
  json::value id;  // a string or an integer; the line's number if it gave none
  BatchPrompt prompt;
  SamplingParams params;  // the defaults with the line's own values
  bool max_tokens_given = false;
};

// What a line that is no valid request is reported with.
struct BatchError {
  json::value id;
  Status status;
};

using BatchLine = std::variant<BatchRequest, BatchError>;

// Reads one line. Errors (kInvalidArgument): not an object, no prompt or several, a value of
// another type, a field that is not known.
BatchLine parse_batch_line(std::string_view line, std::int64_t line_number,
                           const SamplingParams& defaults);

// Lines of a stream, of bounded length.
class LineReader {
 public:
  static constexpr std::size_t kMaxLineBytes = 16U << 20;

  explicit LineReader(std::istream& stream) : stream_(stream) {}

  // The next line that is not blank, without its newline; nullopt at the end. An error for a line
  // longer than kMaxLineBytes, which is skipped.
  std::optional<Result<std::string>> next();
  std::int64_t line_number() const { return line_number_; }  // of the line returned last, from 1

 private:
  std::istream& stream_;
  std::int64_t line_number_ = 0;
};

}  // namespace quire
