// Any bytes as a batch: every line that is not blank becomes one request with exactly one prompt,
// or one error whose record is a JSON object that can be written and read again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "apps/batch_input.h"
#include "apps/jsonl.h"

namespace {

void check_record(const quire::json::value& id, std::int64_t line, const quire::Status& status) {
  if (status.ok() || status.message().empty()) std::abort();
  const std::string text = quire::json::serialize(quire::error_record(id, line, status));
  const auto read = quire::parse_json_line(text, line);
  if (text.find('\n') != std::string::npos) std::abort();
  // A message that quotes the input quotes it as it is, which need not be UTF-8.
  if (!std::holds_alternative<quire::JsonLine>(read)) std::abort();
  if (std::get<quire::JsonLine>(read).id != id) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::int64_t most = 1 + std::count(bytes.begin(), bytes.end(), '\n');
  std::istringstream stream(bytes);
  quire::LineReader reader(stream);
  while (const auto line = reader.next()) {
    const std::int64_t number = reader.line_number();
    if (number > most || reader.bytes_read() > size) std::abort();
    if (!line->ok()) {
      check_record(number, number, line->status());
      continue;
    }
    const quire::BatchLine parsed = quire::parse_batch_line(**line, number, {});
    if (const auto* error = std::get_if<quire::LineError>(&parsed)) {
      check_record(error->id, number, error->status);
      continue;
    }
    const auto& request = std::get<quire::BatchRequest>(parsed);
    if (!request.id.is_string() && !request.id.is_int64()) std::abort();
    const quire::Status valid = request.params.validate(32'000);
    if (!valid.ok()) check_record(request.id, number, valid);
  }
  if (reader.bytes_read() != size) std::abort();
  return 0;
}
