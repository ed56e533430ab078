#include "apps/plan/calculator_numbers.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "apps/plan/plan_report.h"
#include "hub/model_locator.h"
#include "plan/pipeline_cost.h"

namespace quire {
namespace {

constexpr int kMostOfEither = 8;  // of --tp, and of --pp
constexpr std::int64_t kBlockSize = 16;

json::object layouts_of(const PlannedModel& model, const NumberFormat& format) {
  json::object by_tp;
  for (int tp = 1; tp <= kMostOfEither; tp *= 2) {
    json::object by_pp;
    for (int pp = 1; pp <= kMostOfEither; pp *= 2) {
      const FootprintOptions options = {.format = format, .tp = tp, .max_len = model.max_len};
      const auto stages = stage_footprints(model.spec, options, pp);
      if (stages.ok()) by_pp[std::to_string(pp)] = stages_json(*stages);
    }
    if (!by_pp.empty()) by_tp[std::to_string(tp)] = std::move(by_pp);
  }
  return by_tp;
}

}  // namespace

Result<json::object> calculator_numbers(const std::vector<PlannedModel>& models,
                                        const std::vector<PlanDevice>& devices) {
  std::vector<std::pair<std::string, NumberFormat>> formats;
  for (const PlannedModel& model : models) {
    if (model.format_source == "the files") formats.emplace_back("auto", model.format);
  }
  if (formats.size() > 1) {
    return Status::invalid_argument("the sizes of several models' files have no type in common",
                                    "name one model, or configurations");
  }
  for (const NumberFormat& format : number_formats()) formats.emplace_back(format.name, format);
  json::object dtypes;
  json::object multiplied_in;
  for (const auto& [name, format] : formats) {
    dtypes[name] = 8 * format.bytes_per_weight();
    multiplied_in[name] = arithmetic_name(format.arithmetic);
  }
  json::object all;
  for (const PlannedModel& model : models) {
    json::object footprints;
    for (const auto& [name, format] : formats) footprints[name] = layouts_of(model, format);
    all[model.name] = json::object{
        {"maxLen", model.max_len}, {"command", model.name}, {"footprints", std::move(footprints)}};
  }
  json::array list;
  for (const PlanDevice& device : devices) list.push_back(to_json(device));
  return json::object{{"models", std::move(all)},
                      {"dtypes", std::move(dtypes)},
                      {"multipliedIn", std::move(multiplied_in)},
                      {"devices", std::move(list)},
                      {"blockSize", kBlockSize},
                      {"networkGbs", kNetworkBandwidth / 1e9}};
}

Result<std::string> served_calculator_numbers(const std::string& named, const std::string& written,
                                              std::int64_t max_len) {
  QUIRE_ASSIGN_OR_RETURN(const DeviceCatalog catalog, DeviceCatalog::builtin());
  QUIRE_ASSIGN_OR_RETURN(const PlannedModel model, open_planned_model(named, "auto", std::nullopt));
  QUIRE_ASSIGN_OR_RETURN(json::object numbers, calculator_numbers({model}, catalog.devices()));
  const auto locator = parse_model_locator(written);
  if (locator.ok() && locator->kind == ModelLocator::Kind::kHub) {
    numbers["models"].as_object().begin()->value().as_object()["command"] = written;
  }
  constexpr std::int64_t kUsualInput = 1024;
  constexpr std::int64_t kUsualOutput = 256;
  numbers["first"] = {{"dtype", numbers.at("dtypes").as_object().begin()->key()},
                      {"maxLen", std::min(max_len, model.max_len)},
                      {"input", std::min(kUsualInput, std::max<std::int64_t>(max_len / 2, 1))},
                      {"output", std::min(kUsualOutput, std::max<std::int64_t>(max_len / 4, 1))}};
  return json::serialize(numbers);
}

}  // namespace quire
