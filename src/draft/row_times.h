// What a step of so many rows takes beside what a sum over its work says (a line through all
// sizes): kernels have steps where the line has none, from one row to two most of all. For few rows
// the ratio of the two is kept for each count, measured; between counts that were not seen it is
// interpolated.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace quire {

class RowTimes {
 public:
  static constexpr std::size_t kMaxRows = 64;  // beyond, as at the last that was seen

  // A step of `rows` rows took `measured`, where the line says `expected`, both above 0.
  void observe(std::int64_t rows, double expected, double measured) {
    if (rows < 1 || rows > static_cast<std::int64_t>(kMaxRows)) return;
    const auto at = static_cast<std::size_t>(rows) - 1;
    Ratio& seen = ratios_[at];
    if (!known(at)) seen.count = 0;
    const double now = std::clamp(measured / expected, kLeast, kMost);
    // The first few count alike; a later one that is far off counts as one that is not.
    const double counted =
        seen.count < kFirst ? now : std::clamp(now, seen.value / 2, seen.value * 2);
    seen.count = std::min(seen.count + 1, kMemory);
    seen.value += (counted - seen.value) / static_cast<double>(seen.count);
    seen.last = ++num_observed_;
  }

  // The ratio for so many rows; 1 where nothing was seen at all.
  double ratio(std::int64_t rows) const {
    const auto at = static_cast<std::size_t>(
        std::clamp<std::int64_t>(rows, 1, static_cast<std::int64_t>(kMaxRows)) - 1);
    std::size_t low = at;
    while (low > 0 && !known(low)) --low;
    std::size_t high = at;
    while (high + 1 < kMaxRows && !known(high)) ++high;
    if (!known(low)) return known(high) ? ratios_[high].value : 1;
    if (!known(high) || low == high) return ratios_[low].value;
    const double share = static_cast<double>(at - low) / static_cast<double>(high - low);
    return ratios_[low].value + share * (ratios_[high].value - ratios_[low].value);
  }

 private:
  static constexpr double kLeast = 0.1;
  static constexpr double kMost = 10;
  static constexpr std::int64_t kFirst = 4;
  static constexpr std::int64_t kMemory = 32;  // steps
  // What was seen less often than kFirst is forgotten after so many steps: it may have been an
  // accident that nobody would try again.
  static constexpr std::int64_t kForget = 256;

  struct Ratio {
    double value = 1;
    std::int64_t count = 0;
    std::int64_t last = 0;  // when it was seen
  };
  bool known(std::size_t at) const {
    const Ratio& seen = ratios_[at];
    return seen.count >= kFirst || (seen.count > 0 && num_observed_ - seen.last < kForget);
  }

  std::array<Ratio, kMaxRows> ratios_{};
  std::int64_t num_observed_ = 0;
};

}  // namespace quire
