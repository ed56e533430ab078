#include "apps/plan/plan_values.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {
namespace {

struct NumberWithUnit {
  double number = 0;
  std::string_view unit;
};

// Nothing where there is no finite number above 0 in front.
Result<NumberWithUnit> split_unit(std::string_view text, std::string_view what,
                                  std::string_view remedy) {
  NumberWithUnit split;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), split.number);
  if (code != std::errc() || !std::isfinite(split.number) || split.number <= 0) {
    return Status::invalid_argument(fmt::format("\"{}\" is not {}", printable(text), what), remedy);
  }
  split.unit = text.substr(static_cast<std::size_t>(end - text.data()));
  return split;
}

}  // namespace

Result<double> parse_parameters(std::string_view text) {
  constexpr std::string_view kRemedy = "write it as 350M, 7B or 1.5T";
  QUIRE_ASSIGN_OR_RETURN(const NumberWithUnit split,
                         split_unit(text, "a number of parameters", kRemedy));
  double unit = 0;
  if (split.unit == "M") unit = 1e6;
  if (split.unit == "B") unit = 1e9;
  if (split.unit == "T") unit = 1e12;
  if (unit == 0 || split.number * unit > 1e15) {
    return Status::invalid_argument(
        fmt::format("\"{}\" is not a number of parameters", printable(text)), kRemedy);
  }
  return split.number * unit;
}

Result<double> parse_seconds(std::string_view text) {
  constexpr std::string_view kRemedy = "write it as 50ms, 1.5s or 2m";
  QUIRE_ASSIGN_OR_RETURN(const NumberWithUnit split, split_unit(text, "a time", kRemedy));
  if (split.unit == "us") return split.number * 1e-6;
  if (split.unit == "ms") return split.number * 1e-3;
  if (split.unit.empty() || split.unit == "s") return split.number;
  if (split.unit == "m") return split.number * 60;
  return Status::invalid_argument(fmt::format("\"{}\" is not a time", printable(text)), kRemedy);
}

std::string binary_bytes(double bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 2, kUnits[unit]);
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.1 ? 2 : 0);
  return fmt::format("{:.2f} s", seconds);
}

}  // namespace quire
