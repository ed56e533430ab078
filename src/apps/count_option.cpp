#include "apps/count_option.h"

#include <charconv>

#include <fmt/format.h>

namespace quire {

Result<std::int64_t> parse_count(std::string_view text) {
  const Status error = Status::invalid_argument(
      fmt::format("\"{}\" is not a count", text),
      "use digits with an optional k, m, g (powers of 1,000) or K, M, G (powers of 1,024)");
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  if (code != std::errc() || suffix.size() > 1) return error;
  if (suffix.empty()) return value;
  std::int64_t unit = 0;
  switch (suffix[0]) {
    case 'k':
      unit = 1000;
      break;
    case 'm':
      unit = 1000'000;
      break;
    case 'g':
      unit = 1000'000'000;
      break;
    case 'K':
      unit = 1LL << 10;
      break;
    case 'M':
      unit = 1LL << 20;
      break;
    case 'G':
      unit = 1LL << 30;
      break;
    default:
      return error;
  }
  std::int64_t result = 0;
  if (__builtin_mul_overflow(value, unit, &result)) return error;
  return result;
}

}  // namespace quire
