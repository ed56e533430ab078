#include "apps/step_cost_file.h"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace quire {
namespace {

constexpr std::array<std::pair<std::string_view, std::int64_t StepCost::*>, 5> kCostKeys = {{
    {"step_ns", &StepCost::step},
    {"row_ns", &StepCost::row},
    {"row_1024_keys_ns", &StepCost::row_keys},
    {"prompt_token_ns", &StepCost::prompt_token},
    {"prompt_1024_keys_ns", &StepCost::prompt_keys},
}};

}  // namespace

json::object step_cost_json(const StepCostFit& fit) {
  json::object report;
  for (const auto& [key, member] : kCostKeys) report[key] = fit.cost.*member;
  report["mean_error"] = fit.mean_error;
  return report;
}

Result<StepCost> read_step_cost(const std::filesystem::path& path) {
  constexpr std::uint64_t kMaxBytes = 1U << 20;
  QUIRE_ASSIGN_OR_RETURN(const auto value, read_json_file(path, kMaxBytes));
  if (!value.is_object()) {
    return Status::invalid_argument(
        fmt::format("{}: expected an object, found {}", path.string(), json_kind_name(value)));
  }
  const JsonReader reader(value.get_object(), path.string(), StatusCode::kInvalidArgument);
  StepPace pace;
  for (const auto& [key, member] : kCostKeys) {
    QUIRE_ASSIGN_OR_RETURN(pace.cost.*member, reader.get_int(key));
  }
  const Status range = pace.validate();
  if (range.ok()) return pace.cost;
  return Status::invalid_argument(fmt::format("{}: a cost is out of range", path.string()),
                                  "use what quire bench calibrate has written");
}

}  // namespace quire
