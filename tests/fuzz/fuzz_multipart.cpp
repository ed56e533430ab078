// Any bytes as a multipart/form-data body, the first line being the Content-Type: parts that lie
// within the body and in order, with names that can be shown, or one error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "serve/protocols/openai/batch/multipart.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t line_end = bytes.find('\n');
  const std::string_view type = bytes.substr(0, line_end);
  const std::string_view body =
      line_end == std::string_view::npos ? std::string_view() : bytes.substr(line_end + 1);
  const auto parts = quire::parse_multipart(type, body);
  if (!parts.ok()) {
    if (parts.status().message().empty()) std::abort();
    return 0;
  }
  const char* at = body.data();
  for (const quire::MultipartPart& part : *parts) {
    if (part.name.empty() || part.data.data() < at) std::abort();
    at = part.data.data() + part.data.size();
    if (at > body.data() + body.size()) std::abort();
    const std::string shown = quire::sanitized_filename(part.filename);
    if (shown.empty() || shown.size() > 255 || !quire::is_valid_utf8(shown)) std::abort();
    if (shown.find_first_of("/\\\r\n") != std::string::npos || shown == "..") std::abort();
  }
  return 0;
}
