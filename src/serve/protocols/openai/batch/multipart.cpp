#include "serve/protocols/openai/batch/multipart.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "serve/http/field_text.h"
#include "text/utf8.h"

namespace quire {
namespace {

constexpr std::size_t kMaxParts = 32;
constexpr std::size_t kMaxPartHeaderBytes = 8 * 1024;
constexpr std::size_t kMaxBoundary = 70;  // RFC 2046
constexpr std::size_t kMaxFilename = 255;

Status malformed(std::string_view what) {
  return Status::invalid_argument(fmt::format("multipart/form-data: {}", what));
}

bool is_space(char c) { return c == ' ' || c == '\t'; }

char lower(char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); }

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return lower(c); });
  return out;
}

struct Parameter {
  std::string name;  // lower case
  std::string value;
};

// One value of a header: `form-data; name="file"; filename="a.jsonl"`.
struct HeaderValue {
  std::string kind;  // lower case: what stands before the first ';'
  std::vector<Parameter> parameters;

  const std::string* find(std::string_view name) const {
    const auto found = std::ranges::find(parameters, name, &Parameter::name);
    return found == parameters.end() ? nullptr : &found->value;
  }
};

// Takes a quoted string, whose opening quote is at the front. A backslash escapes a quote and a
// backslash only: some clients send names such as C:\new.txt unescaped.
std::optional<std::string> take_quoted(std::string_view& text) {
  std::string value;
  std::size_t at = 1;
  for (; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\' && at + 1 < text.size() && (text[at + 1] == '"' || text[at + 1] == '\\')) {
      ++at;
    }
    value.push_back(text[at]);
  }
  if (at >= text.size()) return std::nullopt;
  text.remove_prefix(at + 1);
  return value;
}

Result<HeaderValue> parse_header_value(std::string_view text) {
  HeaderValue header;
  const std::size_t kind_end = std::min(text.find(';'), text.size());
  header.kind = lower(trimmed(text.substr(0, kind_end)));
  text.remove_prefix(kind_end);
  while (!(text = trimmed(text)).empty()) {
    if (text.front() != ';') return malformed("a header's parameters have to be parted by ';'");
    text = trimmed(text.substr(1));
    if (text.empty()) break;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) return malformed("a header's parameter has no value");
    Parameter parameter{.name = lower(trimmed(text.substr(0, equals))), .value = {}};
    text = trimmed(text.substr(equals + 1));
    if (text.starts_with('"')) {
      auto value = take_quoted(text);
      if (!value) return malformed("a header's quoted value does not end");
      parameter.value = std::move(*value);
    } else {
      const std::size_t end = std::min(text.find(';'), text.size());
      parameter.value = trimmed(text.substr(0, end));
      text.remove_prefix(end);
    }
    if (header.find(parameter.name) != nullptr) {
      return malformed("a header's parameter stands there twice");
    }
    header.parameters.push_back(std::move(parameter));
  }
  return header;
}

Result<std::string> read_boundary(std::string_view content_type) {
  QUIRE_ASSIGN_OR_RETURN(const HeaderValue header, parse_header_value(content_type));
  if (header.kind != "multipart/form-data") return malformed("the body is of another type");
  const std::string* boundary = header.find("boundary");
  if (boundary == nullptr || boundary->empty()) return malformed("Content-Type has no boundary");
  const bool plain = std::ranges::all_of(*boundary, [](char c) { return c >= ' ' && c <= '~'; });
  if (boundary->size() > kMaxBoundary || !plain || boundary->ends_with(' ')) {
    return malformed("the boundary has to be 1 to 70 printable ASCII characters");
  }
  return *boundary;
}

// "%22" is how browsers and their followers write a quote.
std::string unescape_quotes(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t at = text.find("%22");
    out += text.substr(0, at);
    if (at == std::string_view::npos) return out;
    out += '"';
    text.remove_prefix(at + 3);
  }
}

Status read_disposition(std::string_view value, MultipartPart& part) {
  QUIRE_ASSIGN_OR_RETURN(const HeaderValue header, parse_header_value(value));
  if (header.kind != "form-data") return malformed("a part's disposition has to be form-data");
  if (header.find("filename*") != nullptr || header.find("name*") != nullptr) {
    return malformed("encoded names (filename*=...) are not supported; use filename=\"...\"");
  }
  const std::string* name = header.find("name");
  if (name == nullptr || name->empty()) return malformed("a part has no name");
  part.name = unescape_quotes(*name);
  if (const std::string* filename = header.find("filename")) {
    part.has_filename = true;
    part.filename = unescape_quotes(*filename);
  }
  return {};
}

Status check_part_header(std::string_view name, std::string_view value) {
  if (name == "content-type" && lower(value).starts_with("multipart/")) {
    return malformed("a part that is a multipart itself is not supported");
  }
  if (name == "content-transfer-encoding") {
    const std::string encoding = lower(value);
    if (encoding != "binary" && encoding != "8bit" && encoding != "7bit") {
      return malformed("a part's Content-Transfer-Encoding is not supported; send it as it is");
    }
  }
  return {};
}

// Takes the headers of a part and the empty line after them off the front of `rest`.
Status take_part_headers(std::string_view& rest, MultipartPart& part) {
  std::size_t taken = 0;
  bool has_disposition = false;
  while (true) {
    const std::size_t end = rest.substr(0, kMaxPartHeaderBytes - taken).find("\r\n");
    if (end == std::string_view::npos) {
      return malformed(rest.size() > kMaxPartHeaderBytes - taken
                           ? "a part's headers are too long"
                           : "the body ends within a part's headers");
    }
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    taken += end + 2;
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    const bool clean = std::ranges::none_of(
        line, [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 127; });
    if (colon == std::string_view::npos || is_space(line.front()) || !clean) {
      return malformed("a part's header is not well formed");
    }
    const std::string name = lower(trimmed(line.substr(0, colon)));
    const std::string_view value = trimmed(line.substr(colon + 1));
    QUIRE_RETURN_IF_ERROR(check_part_header(name, value));
    if (name != "content-disposition") continue;
    if (std::exchange(has_disposition, true)) return malformed("a part has two dispositions");
    QUIRE_RETURN_IF_ERROR(read_disposition(value, part));
  }
  if (!has_disposition) return malformed("a part has no Content-Disposition");
  return {};
}

// Takes what may follow a delimiter: blanks and the end of its line. `last` is set for the
// delimiter that ends the body.
Status take_delimiter_end(std::string_view& rest, bool& last) {
  last = rest.starts_with("--");
  if (last) return {};
  while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
  if (!rest.starts_with("\r\n")) {
    return malformed(rest.empty() ? "the last boundary is missing"
                                  : "a boundary is not at the end of its line");
  }
  rest.remove_prefix(2);
  return {};
}

}  // namespace

Result<std::vector<MultipartPart>> parse_multipart(std::string_view content_type,
                                                   std::string_view body) {
  QUIRE_ASSIGN_OR_RETURN(const std::string boundary, read_boundary(content_type));
  const std::string delimiter = "\r\n--" + boundary;
  std::string_view rest = body;
  if (rest.starts_with(std::string_view(delimiter).substr(2))) {
    rest.remove_prefix(delimiter.size() - 2);
  } else {
    const std::size_t first = rest.find(delimiter);  // after a preamble, which says nothing
    if (first == std::string_view::npos) return malformed("the boundary is not in the body");
    rest.remove_prefix(first + delimiter.size());
  }
  std::vector<MultipartPart> parts;
  while (true) {
    bool last = false;
    QUIRE_RETURN_IF_ERROR(take_delimiter_end(rest, last));
    if (last) return parts;
    if (parts.size() == kMaxParts) return malformed(fmt::format("more than {} parts", kMaxParts));
    MultipartPart part;
    QUIRE_RETURN_IF_ERROR(take_part_headers(rest, part));
    const std::size_t end = rest.find(delimiter);
    if (end == std::string_view::npos) return malformed("the last boundary is missing");
    part.data = rest.substr(0, end);
    rest.remove_prefix(end + delimiter.size());
    parts.push_back(std::move(part));
  }
}

std::string sanitized_filename(std::string_view filename) {
  const std::size_t folder = filename.find_last_of("/\\");
  if (folder != std::string_view::npos) filename.remove_prefix(folder + 1);
  std::string out;
  for (std::size_t at = 0; at < filename.size();) {
    const Utf8Char c = decode_utf8(filename, at);
    const bool control = c.code < 0x20 || (c.code >= 0x7F && c.code < 0xA0);
    if (out.size() + c.size > kMaxFilename) break;
    if (c.valid && !control) out += filename.substr(at, c.size);
    at += c.size;
  }
  return out.empty() || out == "." || out == ".." ? "upload" : out;
}

}  // namespace quire
