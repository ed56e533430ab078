#include "serve/models/token_widths.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include "text/utf8.h"

namespace quire {
namespace {

std::uint64_t escaped_bytes(unsigned char c) {
  if (c == '"' || c == '\\' || (c >= '\b' && c <= '\r' && c != '\v')) return 2;
  return c < 0x20 ? 6 : 1;
}

std::uint64_t byte_list_bytes(std::string_view bytes) {
  std::uint64_t size = 0;
  for (const char c : bytes) {
    const auto value = static_cast<unsigned char>(c);
    size += value < 10 ? 2 : value < 100 ? 3 : 4;  // and a comma
  }
  return size;
}

// sums[i]: of the i largest.
std::vector<std::uint64_t> sums_of_largest(std::vector<std::uint64_t> sizes, std::size_t count) {
  count = std::min(count, sizes.size());
  const auto end = sizes.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(sizes.begin(), end, sizes.end(), std::greater<>());
  std::vector<std::uint64_t> sums(count + 1);
  std::partial_sum(sizes.begin(), end, sums.begin() + 1);
  return sums;
}

}  // namespace

std::uint64_t json_text_bytes(std::string_view text) {
  constexpr std::uint64_t kReplacementBytes = 3;  // U+FFFD
  std::uint64_t size = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      size += escaped_bytes(byte);
      ++at;
      continue;
    }
    const Utf8Char c = decode_utf8(text, at);
    size += c.valid ? c.size : kReplacementBytes;
    at += c.valid ? c.size : 1;
  }
  return size;
}

TokenWidths::TokenWidths(const Tokenizer& tokenizer, std::int64_t vocab_size,
                         std::int64_t max_tokens)
    : id_(std::to_string(vocab_size).size() + 1) {
  std::vector<std::uint64_t> texts;
  std::vector<std::uint64_t> byte_lists;
  for (TokenId id = 0; tokenizer.contains(id); ++id) {
    texts.push_back(std::max(json_text_bytes(tokenizer.token_bytes(id)),
                             json_text_bytes(tokenizer.first_token_bytes(id))));
    byte_lists.push_back(byte_list_bytes(tokenizer.token_bytes(id)));
  }
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(1, max_tokens));
  texts_ = sums_of_largest(std::move(texts), count);
  byte_lists_ = sums_of_largest(std::move(byte_lists), count);
}

std::uint64_t TokenWidths::at(const std::vector<std::uint64_t>& sums, std::int64_t count) {
  return sums[std::min(static_cast<std::size_t>(count), sums.size() - 1)];
}

}  // namespace quire
