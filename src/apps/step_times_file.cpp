#include "apps/step_times_file.h"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::string_view kTokensKey = "tokens";
constexpr std::string_view kFactorsKey = "factors";
constexpr std::array<std::pair<std::string_view, double StepTimes::*>, 3> kCostKeys = {{
    {"row_ns", &StepTimes::row},
    {"row_1024_keys_ns", &StepTimes::row_keys},
    {"prompt_1024_keys_ns", &StepTimes::prompt_keys},
}};
constexpr double kMostNanoseconds = 1e13;  // hours
constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;

json::array points_json(const std::vector<StepTimes::Point>& points) {
  json::array list;
  for (const auto& [tokens, value] : points) list.push_back(json::array{tokens, value});
  return list;
}

Status out_of_range(const std::filesystem::path& path, std::string_view key) {
  return Status::invalid_argument(fmt::format("{}: {}: a cost is out of range", path.string(), key),
                                  "use what quire bench calibrate has written");
}

bool is_cost(double value) { return value >= 0 && value <= kMostNanoseconds; }

Result<std::vector<StepTimes::Point>> read_points(const JsonReader& reader,
                                                  const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(const json::array* items, reader.get_items(kTokensKey));
  std::vector<StepTimes::Point> points;
  for (const json::value& item : *items) {
    const json::array* pair = item.if_array();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_int64() || !(*pair)[1].is_number()) {
      return reader.type_error(kTokensKey, "an array of [tokens of a step, nanoseconds]");
    }
    const StepTimes::Point point = {.tokens = (*pair)[0].get_int64(),
                                    .value = (*pair)[1].to_number<double>()};
    const std::int64_t least = points.empty() ? 1 : points.back().tokens + 1;
    if (point.tokens < least || point.tokens > kMostTokens || !is_cost(point.value) ||
        (!points.empty() && point.value < points.back().value)) {
      return out_of_range(path, kTokensKey);
    }
    points.push_back(point);
  }
  return points;
}

}  // namespace

json::object step_times_json(const StepTimes& times) {
  json::object report;
  report[kTokensKey] = points_json(times.tokens);
  for (const auto& [key, member] : kCostKeys) report[key] = times.*member;
  if (!times.factors.empty()) report[kFactorsKey] = points_json(times.factors);
  return report;
}

Result<StepTimes> read_step_times(const std::filesystem::path& path) {
  constexpr std::uint64_t kMaxBytes = 1U << 20;
  QUIRE_ASSIGN_OR_RETURN(const auto value, read_json_file(path, kMaxBytes));
  if (!value.is_object()) {
    return Status::invalid_argument(
        fmt::format("{}: expected an object, found {}", path.string(), json_kind_name(value)));
  }
  const JsonReader reader(value.get_object(), path.string(), StatusCode::kInvalidArgument);
  StepTimes times;
  QUIRE_ASSIGN_OR_RETURN(times.tokens, read_points(reader, path));
  for (const auto& [key, member] : kCostKeys) {
    QUIRE_ASSIGN_OR_RETURN(times.*member, reader.get_double(key));
    if (!is_cost(times.*member)) return out_of_range(path, key);
  }
  return times;
}

}  // namespace quire
