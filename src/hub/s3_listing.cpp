#include "hub/s3_listing.h"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

// Appends a code point as UTF-8; false for what is none.
bool append_utf8(std::string& text, std::uint32_t code) {
  const auto byte = [&](std::uint32_t value) { text += static_cast<char>(value); };
  if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | (code >> 6));
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | (code >> 12));
    byte(0x80 | ((code >> 6) & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | (code >> 18));
    byte(0x80 | ((code >> 12) & 0x3F));
    byte(0x80 | ((code >> 6) & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
  return true;
}

bool append_entity(std::string& text, std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, char>, 5> kEntities = {
      {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};
  for (const auto& [entity, character] : kEntities) {
    if (name != entity) continue;
    text += character;
    return true;
  }
  if (!name.starts_with('#')) return false;
  name.remove_prefix(1);
  const bool is_hex = name.starts_with('x');
  if (is_hex) name.remove_prefix(1);
  std::uint32_t code = 0;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), code, is_hex ? 16 : 10);
  return error == std::errc() && end == name.data() + name.size() && append_utf8(text, code);
}

std::string without_entities(std::string_view raw) {
  constexpr std::size_t kLongestEntity = 10;
  std::string text;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const std::size_t end = raw[i] == '&' ? raw.find(';', i) : raw.npos;
    const bool is_entity = end != raw.npos && end - i <= kLongestEntity &&
                           append_entity(text, raw.substr(i + 1, end - i - 1));
    if (is_entity) {
      i = end;
    } else {
      text += raw[i];
    }
  }
  return text;
}

// The raw text of the next <name> from `at` on, which moves behind it.
std::optional<std::string_view> next_element(std::string_view xml, std::string_view name,
                                             std::size_t& at) {
  const std::string open = fmt::format("<{}>", name);
  const std::string close = fmt::format("</{}>", name);
  const std::size_t begin = xml.find(open, at);
  if (begin == xml.npos) return std::nullopt;
  const std::size_t end = xml.find(close, begin);
  if (end == xml.npos) return std::nullopt;
  at = end + close.size();
  return xml.substr(begin + open.size(), end - begin - open.size());
}

}  // namespace

std::string xml_text(std::string_view xml, std::string_view name) {
  std::size_t at = 0;
  const auto raw = next_element(xml, name, at);
  return raw ? without_entities(*raw) : std::string();
}

Result<S3Listing> read_s3_listing(std::string_view xml, std::string_view where) {
  constexpr std::size_t kMaxKeys = 10'000;
  if (xml.find("<ListBucketResult") == xml.npos) {
    return Status::bad_model(fmt::format("{}: the answer is no list of objects", where),
                             "is AWS_ENDPOINT_URL an S3-compatible store?");
  }
  S3Listing listing;
  std::size_t at = 0;
  while (const auto object = next_element(xml, "Contents", at)) {
    listing.keys.push_back(xml_text(*object, "Key"));
    if (listing.keys.size() > kMaxKeys) {
      return Status::bad_model(
          fmt::format("{}: more than {} objects in one page", where, kMaxKeys));
    }
  }
  if (xml_text(xml, "IsTruncated") == "true") {
    listing.next = xml_text(xml, "NextContinuationToken");
    if (listing.next.empty()) {
      return Status::bad_model(fmt::format("{}: the list goes on, but not where", where));
    }
  }
  return listing;
}

}  // namespace quire
