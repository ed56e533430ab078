#include "weights/safetensors_header.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/printable.h"
#include "weights/byte_cursor.h"
#include "weights/file_kind.h"
#include "weights/safetensors.h"

namespace quire {
namespace {

constexpr int kMaxDepth = 8;  // the header itself has 3

// The keys of the outermost object as they are spelled in `text`, at most `max_keys` + 1 of them.
// Made for texts that will be, or were, parsed too: on anything else the result means nothing.
std::vector<std::string_view> outermost_keys(std::string_view text, std::size_t max_keys) {
  std::vector<std::string_view> keys;
  std::string_view last;
  int depth = 0;
  for (std::size_t i = 0; i < text.size() && keys.size() <= max_keys; ++i) {
    const char c = text[i];
    if (c == '"') {
      const std::size_t begin = ++i;
      while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
      last = text.substr(begin, i - begin);
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ':' && depth == 1) {
      keys.push_back(last);
    }
  }
  return keys;
}

Status refuse_duplicates(std::vector<std::string_view> keys, std::size_t distinct,
                         const std::string& file) {
  if (keys.size() == distinct) return {};
  std::ranges::sort(keys);
  const auto twice = std::ranges::adjacent_find(keys);
  // Two spellings of one name, with and without escapes, differ here and not in the parsed object.
  const std::string name = twice == keys.end() ? "a tensor" : "tensor " + printable(*twice);
  return Status::bad_model(fmt::format("{}: {} appears twice in the header", file, name),
                           "fetch or convert the model again");
}

}  // namespace

Result<SafetensorsHeader> read_safetensors_header(std::span<const std::byte> bytes,
                                                  const std::string& file) {
  const FileKind kind = recognize_file(bytes);
  if (kind != FileKind::kSafetensors && kind != FileKind::kUnknown) {
    return wrong_file_kind(file, "a safetensors file", kind);
  }
  ByteCursor cursor(bytes);
  std::uint64_t size = 0;
  std::span<const std::byte> header;
  if (!cursor.read(size)) {
    return Status::bad_model(
        fmt::format("{}: {} bytes are too few for a safetensors file", file, bytes.size()),
        "fetch it again");
  }
  if (size > kSafetensorsMaxHeaderBytes) {
    return Status::bad_model(fmt::format("{}: the header claims {} bytes, at most {} are read",
                                         file, size, kSafetensorsMaxHeaderBytes),
                             "the file is damaged or of another kind: fetch it again");
  }
  if (!cursor.read_bytes(size, header)) {
    return Status::bad_model(
        fmt::format("{}: truncated: the header needs bytes up to {}, the file has {}", file,
                    size + cursor.offset(), bytes.size()),
        "fetch it again");
  }
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  auto keys = outermost_keys(text, kSafetensorsMaxEntries);
  if (keys.size() > kSafetensorsMaxEntries) {
    return Status::bad_model(
        fmt::format("{}: the header has more than {} entries", file, kSafetensorsMaxEntries));
  }
  auto value = parse_json(text, file + ": header", kMaxDepth);
  if (!value.ok()) return Status::bad_model(value.status().message(), "fetch the file again");
  if (!value->is_object()) {
    return Status::bad_model(
        fmt::format("{}: header: expected an object, found {}", file, json_kind_name(*value)),
        "fetch the file again");
  }
  QUIRE_RETURN_IF_ERROR(refuse_duplicates(std::move(keys), value->get_object().size(), file));
  return SafetensorsHeader{std::move(value->get_object()), cursor.offset()};
}

}  // namespace quire
