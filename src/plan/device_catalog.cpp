#include "plan/device_catalog.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.h"
#include "base/nearest.h"
#include "base/printable.h"

namespace quire {

std::string_view device_catalog_text();  // device_catalog_data.cpp

namespace {

constexpr std::size_t kMaxDevices = 1000;
constexpr std::uint64_t kMaxCatalogBytes = 4U << 20;
constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

// What is assumed where an entry says nothing: what engines report of large products and of
// decoding on such devices, and the order of a launch from CUDA graphs (docs/planning.md).
constexpr Efficiencies kOfGpus = {.compute = 0.55,
                                  .memory = 0.75,
                                  .link = 0.7,
                                  .step_overhead_s = 0.5e-3,
                                  .reduce_latency_s = 10e-6};
constexpr Efficiencies kOfCpus = {.compute = 0.4,
                                  .memory = 0.75,
                                  .link = 0.7,
                                  .step_overhead_s = 0.2e-3,
                                  .reduce_latency_s = 20e-6};

constexpr std::array<std::string_view, 20> kDeviceKeys = {"name",
                                                          "title",
                                                          "kind",
                                                          "memory_gb",
                                                          "bandwidth_gbs",
                                                          "link_gbs",
                                                          "max_tp",
                                                          "teraflops",
                                                          "source",
                                                          "date",
                                                          "usd_per_hour",
                                                          "price_source",
                                                          "price_date",
                                                          "compute_efficiency",
                                                          "memory_efficiency",
                                                          "link_efficiency",
                                                          "step_overhead_ms",
                                                          "reduce_latency_us",
                                                          "comment",
                                                          "note"};

Status out_of_range(const JsonReader& entry, std::string_view key, double value, double low,
                    double high) {
  return Status::invalid_argument(fmt::format("{}: {} is {}; expected above {}, at most {}",
                                              entry.where(), key, value, low, high));
}

// A number in (0, high], into `target`; absent keys leave it.
Status take_number(const JsonReader& entry, std::string_view key, double high, double scale,
                   double& target) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, entry.find_double(key));
  if (!value) return {};
  if (!(*value > 0 && *value <= high)) return out_of_range(entry, key, *value, 0, high);
  target = *value * scale;
  return {};
}

Status need_number(const JsonReader& entry, std::string_view key, double high, double scale,
                   double& target) {
  QUIRE_RETURN_IF_ERROR(entry.get_double(key).status());
  return take_number(entry, key, high, scale, target);
}

Status read_flops(const JsonReader& entry, PlanDevice& device) {
  QUIRE_ASSIGN_OR_RETURN(const JsonReader flops, entry.get_object("teraflops"));
  for (const auto& [key, unused] : flops.object()) {
    const auto arithmetic = parse_arithmetic(key);
    if (!arithmetic.ok()) {
      return Status::invalid_argument(
          fmt::format("{}: {}", flops.where(), arithmetic.status().message()));
    }
    double value = 0;
    QUIRE_RETURN_IF_ERROR(need_number(flops, key, 1e9, kTera, value));
    device.flops.emplace_back(*arithmetic, value);
  }
  const auto wide = [](const auto& each) { return each.first == Arithmetic::kF32; };
  if (std::ranges::any_of(device.flops, wide)) return {};
  return Status::invalid_argument(
      fmt::format("{}: teraflops: fp32 is missing, which stands in for types that the device lacks",
                  entry.where()));
}

Result<PlanDevice> read_device(const JsonReader& entry) {
  QUIRE_RETURN_IF_ERROR(check_fields(entry, kDeviceKeys));
  PlanDevice device;
  QUIRE_ASSIGN_OR_RETURN(device.name, entry.get_string("name"));
  if (device.name.empty()) {
    return Status::invalid_argument(fmt::format("{}: name is empty", entry.where()));
  }
  QUIRE_ASSIGN_OR_RETURN(const auto title, entry.find_string("title"));
  device.title = title.value_or(device.name);
  QUIRE_ASSIGN_OR_RETURN(const auto kind, entry.find_string("kind"));
  if (kind && *kind != "gpu" && *kind != "cpu") {
    return Status::invalid_argument(
        fmt::format("{}: kind is \"{}\"; expected gpu or cpu", entry.where(), printable(*kind)));
  }
  device.cpu = kind == "cpu";
  QUIRE_RETURN_IF_ERROR(need_number(entry, "memory_gb", 1e6, kGiga, device.memory_bytes));
  QUIRE_RETURN_IF_ERROR(need_number(entry, "bandwidth_gbs", 1e7, kGiga, device.bandwidth));
  QUIRE_RETURN_IF_ERROR(take_number(entry, "link_gbs", 1e7, kGiga, device.link_bandwidth));
  double max_tp = 1;
  QUIRE_RETURN_IF_ERROR(take_number(entry, "max_tp", 1024, 1, max_tp));
  device.max_tp = static_cast<int>(max_tp);
  if (device.max_tp > 1 && device.link_bandwidth == 0) {
    return Status::invalid_argument(
        fmt::format("{}: max_tp is {} and link_gbs is missing", entry.where(), device.max_tp));
  }
  QUIRE_RETURN_IF_ERROR(read_flops(entry, device));
  Efficiencies& shares = device.efficiencies;
  shares = device.cpu ? kOfCpus : kOfGpus;
  QUIRE_RETURN_IF_ERROR(take_number(entry, "compute_efficiency", 1, 1, shares.compute));
  QUIRE_RETURN_IF_ERROR(take_number(entry, "memory_efficiency", 1, 1, shares.memory));
  QUIRE_RETURN_IF_ERROR(take_number(entry, "link_efficiency", 1, 1, shares.link));
  QUIRE_RETURN_IF_ERROR(take_number(entry, "step_overhead_ms", 1e4, 1e-3, shares.step_overhead_s));
  QUIRE_RETURN_IF_ERROR(
      take_number(entry, "reduce_latency_us", 1e6, 1e-6, shares.reduce_latency_s));
  QUIRE_ASSIGN_OR_RETURN(device.source, entry.get_string("source"));
  QUIRE_ASSIGN_OR_RETURN(device.date, entry.get_string("date"));
  double price = 0;
  QUIRE_RETURN_IF_ERROR(take_number(entry, "usd_per_hour", 1e6, 1, price));
  if (price > 0) {
    device.usd_per_hour = price;
    QUIRE_ASSIGN_OR_RETURN(device.price_source, entry.get_string("price_source"));
    QUIRE_ASSIGN_OR_RETURN(device.price_date, entry.get_string("price_date"));
  }
  return device;
}

std::string plain_device_name(std::string_view name) {
  std::string plain(name);
  for (char& c : plain) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '_' || c == ' ') c = '-';
  }
  for (const std::string_view maker : {"nvidia-", "amd-", "intel-", "geforce-", "instinct-"}) {
    if (plain.starts_with(maker)) plain.erase(0, maker.size());
  }
  return plain;
}

}  // namespace

std::pair<Arithmetic, double> PlanDevice::flops_of(Arithmetic arithmetic) const {
  const Arithmetic wider[] = {arithmetic, Arithmetic::kBF16, Arithmetic::kF32};
  for (const Arithmetic each : wider) {
    const auto found = std::ranges::find(flops, each, &std::pair<Arithmetic, double>::first);
    if (found != flops.end()) return *found;
  }
  return {Arithmetic::kF32, 0};  // not reached: parse() wants fp32
}

Result<DeviceCatalog> DeviceCatalog::builtin() { return parse(device_catalog_text(), "devices"); }

Result<DeviceCatalog> DeviceCatalog::parse(std::string_view text, std::string_view where) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, parse_json(text, where));
  const std::string name(where);
  if (!value.is_object()) {
    return Status::invalid_argument(
        fmt::format("{}: expected an object, found {}", name, json_kind_name(value)));
  }
  const JsonReader reader(value.get_object(), name, StatusCode::kInvalidArgument);
  const json::value* const list = reader.find("devices");
  if (list == nullptr || !list->is_array()) return reader.type_error("devices", "a list");
  if (list->get_array().size() > kMaxDevices) {
    return Status::invalid_argument(fmt::format("{}: {} devices; expected at most {}", name,
                                                list->get_array().size(), kMaxDevices));
  }
  DeviceCatalog catalog;
  for (std::size_t i = 0; i < list->get_array().size(); ++i) {
    const json::value& each = list->get_array()[i];
    const std::string place = fmt::format("{}: devices[{}]", name, i);
    if (!each.is_object()) {
      return Status::invalid_argument(
          fmt::format("{}: expected an object, found {}", place, json_kind_name(each)));
    }
    QUIRE_ASSIGN_OR_RETURN(
        PlanDevice device,
        read_device(JsonReader(each.get_object(), place, StatusCode::kInvalidArgument)));
    if (std::ranges::find(catalog.devices_, device.name, &PlanDevice::name) !=
        catalog.devices_.end()) {
      return Status::invalid_argument(
          fmt::format("{}: \"{}\" is there twice", place, printable(device.name)));
    }
    catalog.devices_.push_back(std::move(device));
  }
  return catalog;
}

Status DeviceCatalog::add_file(const std::filesystem::path& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxCatalogBytes));
  QUIRE_ASSIGN_OR_RETURN(const DeviceCatalog added, parse(text, path.string()));
  for (const PlanDevice& device : added.devices_) {
    const auto own = std::ranges::find(devices_, device.name, &PlanDevice::name);
    if (own != devices_.end()) {
      *own = device;
    } else {
      devices_.push_back(device);
    }
  }
  return {};
}

Result<PlanDevice> DeviceCatalog::find(std::string_view name) const {
  const std::string plain = plain_device_name(name);
  std::vector<std::string> names;
  for (const PlanDevice& device : devices_) {
    if (plain_device_name(device.name) == plain) return device;
    names.push_back(device.name);
  }
  const auto near = nearest(plain, names, 3);
  return Status::invalid_argument(
      fmt::format("no device \"{}\" is known", printable(name)),
      near ? fmt::format("did you mean {}? --list-devices shows all, --devices FILE adds others",
                         *near)
           : fmt::format("known are {}; --devices FILE adds others", fmt::join(names, ", ")));
}

json::object to_json(const PlanDevice& device) {
  json::object flops;
  for (const auto& [arithmetic, value] : device.flops) {
    flops[arithmetic_name(arithmetic)] = value / kTera;
  }
  json::object entry = {{"name", device.name},
                        {"title", device.title},
                        {"kind", device.cpu ? "cpu" : "gpu"},
                        {"memory_gb", device.memory_bytes / kGiga},
                        {"bandwidth_gbs", device.bandwidth / kGiga},
                        {"max_tp", device.max_tp},
                        {"teraflops", std::move(flops)},
                        {"compute_efficiency", device.efficiencies.compute},
                        {"memory_efficiency", device.efficiencies.memory},
                        {"link_efficiency", device.efficiencies.link},
                        {"step_overhead_ms", device.efficiencies.step_overhead_s * 1e3},
                        {"reduce_latency_us", device.efficiencies.reduce_latency_s * 1e6},
                        {"source", device.source},
                        {"date", device.date}};
  if (device.link_bandwidth > 0) entry["link_gbs"] = device.link_bandwidth / kGiga;
  if (device.usd_per_hour) {
    entry["usd_per_hour"] = *device.usd_per_hour;
    entry["price_source"] = device.price_source;
    entry["price_date"] = device.price_date;
  }
  return entry;
}

}  // namespace quire
