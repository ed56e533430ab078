#include "text/grammar/punycode.h"

#include <algorithm>
#include <cstdint>

namespace quire {
namespace {

constexpr std::uint32_t kBase = 36;
constexpr std::uint32_t kThresholdMin = 1;
constexpr std::uint32_t kThresholdMax = 26;
constexpr std::uint32_t kSkew = 38;
constexpr std::uint32_t kDamp = 700;
constexpr std::uint32_t kInitialBias = 72;
constexpr std::uint32_t kInitialCode = 0x80;
constexpr std::uint32_t kLastCodePoint = 0x10FFFF;
// No delta of a label, which has at most 64 places, is as large; nor is the weight of a digit of
// one.
constexpr std::uint64_t kDeltaEnd = std::uint64_t{kLastCodePoint + 1} * 64;

std::optional<std::uint32_t> digit_value(char c) {
  if (c >= 'a' && c <= 'z') return static_cast<std::uint32_t>(c - 'a');
  if (c >= 'A' && c <= 'Z') return static_cast<std::uint32_t>(c - 'A');
  if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0') + 26;
  return std::nullopt;
}

char digit_of(std::uint32_t value) {
  return static_cast<char>(value < 26 ? 'a' + value : '0' + (value - 26));
}

// Of the digit at `position`, from 0.
std::uint32_t threshold(std::uint32_t position, std::uint32_t bias) {
  const std::uint32_t k = kBase * (position + 1);
  if (k <= bias + kThresholdMin) return kThresholdMin;
  return std::min(k - bias, kThresholdMax);
}

std::uint32_t adapted_bias(std::uint64_t delta, std::uint64_t length, bool first) {
  delta = first ? delta / kDamp : delta / 2;
  delta += delta / length;
  std::uint32_t k = 0;
  for (; delta > ((kBase - kThresholdMin) * kThresholdMax) / 2; k += kBase) {
    delta /= kBase - kThresholdMin;
  }
  return k + static_cast<std::uint32_t>((kBase - kThresholdMin + 1) * delta / (delta + kSkew));
}

// The number that begins at `at`, which is moved behind it.
std::optional<std::uint64_t> read_delta(std::string_view text, std::size_t& at,
                                        std::uint32_t bias) {
  std::uint64_t delta = 0;
  std::uint64_t weight = 1;
  for (std::uint32_t position = 0; at < text.size(); ++position) {
    const std::optional<std::uint32_t> digit = digit_value(text[at++]);
    if (!digit) return std::nullopt;
    delta += *digit * weight;
    if (delta >= kDeltaEnd) return std::nullopt;
    const std::uint32_t least = threshold(position, bias);
    if (*digit < least) return delta;
    weight *= kBase - least;
    if (weight >= kDeltaEnd) return std::nullopt;
  }
  return std::nullopt;
}

void write_delta(std::uint64_t delta, std::uint32_t bias, std::string& out) {
  for (std::uint32_t position = 0;; ++position) {
    const std::uint32_t least = threshold(position, bias);
    if (delta < least) break;
    out += digit_of(least + static_cast<std::uint32_t>((delta - least) % (kBase - least)));
    delta = (delta - least) / (kBase - least);
  }
  out += digit_of(static_cast<std::uint32_t>(delta));
}

}  // namespace

std::optional<std::u32string> decode_punycode(std::string_view text) {
  const std::size_t delimiter = text.rfind('-');
  const bool has_basic = delimiter != std::string_view::npos;
  // Without basic code points there is no delimiter.
  if (delimiter == 0) return std::nullopt;
  std::u32string out;
  if (has_basic) out.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(delimiter));
  std::size_t at = has_basic ? delimiter + 1 : 0;
  if (at == text.size()) return std::nullopt;
  std::uint64_t code = kInitialCode;
  std::uint64_t place = 0;
  std::uint32_t bias = kInitialBias;
  for (bool first = true; at < text.size(); first = false) {
    const std::optional<std::uint64_t> delta = read_delta(text, at, bias);
    if (!delta) return std::nullopt;
    const std::uint64_t length = out.size() + 1;
    bias = adapted_bias(*delta, length, first);
    place += *delta;
    code += place / length;
    place %= length;
    if (code > kLastCodePoint) return std::nullopt;
    out.insert(static_cast<std::size_t>(place), 1, static_cast<char32_t>(code));
    ++place;
  }
  return out;
}

std::string encode_punycode(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) {
    if (c < kInitialCode) out += static_cast<char>(c);
  }
  std::uint64_t written = out.size();
  if (written > 0) out += '-';
  bool first = true;
  std::uint64_t delta = 0;
  char32_t code = kInitialCode;
  std::uint32_t bias = kInitialBias;
  while (written < text.size()) {
    char32_t next = kLastCodePoint;
    for (const char32_t c : text) {
      if (c >= code) next = std::min(next, c);
    }
    delta += std::uint64_t{next - code} * (written + 1);
    code = next;
    for (const char32_t c : text) {
      if (c < code) ++delta;
      if (c != code) continue;
      write_delta(delta, bias, out);
      bias = adapted_bias(delta, ++written, first);
      first = false;
      delta = 0;
    }
    ++delta;
    ++code;
  }
  return out;
}

}  // namespace quire
