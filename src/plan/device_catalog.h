// Devices that a model may be planned for: what their makers say of memory, speed and links, and
// what one of them costs an hour. The catalogue is data (devices.json), compiled in; a file of the
// same form adds devices and replaces those of the same name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "plan/number_format.h"

namespace quire {

// Shares of a device's peaks that a good engine reaches, and what a step costs besides. They are
// assumptions, printed with what is computed by them; docs/planning.md says where they come from.
struct Efficiencies {
  double compute = 0;           // of FLOP/s, in (0, 1]
  double memory = 0;            // of bandwidth, in (0, 1]
  double link = 0;              // of the link, in (0, 1]
  double step_overhead_s = 0;   // of each step: planning, launching, sampling
  double reduce_latency_s = 0;  // of each sum over devices, on top of its bytes
};

struct PlanDevice {
  std::string name;   // "h100"
  std::string title;  // "NVIDIA H100 SXM 80 GB"
  bool cpu = false;
  double memory_bytes = 0;
  double bandwidth = 0;       // bytes/s of its memory
  double link_bandwidth = 0;  // bytes/s to others, both directions together
  int max_tp = 1;             // devices that one copy of a model may be split over
  // FLOP/s, dense, of products in a type; those that it lacks are absent.
  std::vector<std::pair<Arithmetic, double>> flops;
  Efficiencies efficiencies;
  std::string source;  // of the figures, and when it was published
  std::string date;
  std::optional<double> usd_per_hour;  // of one device
  std::string price_source;
  std::string price_date;

  // FLOP/s of products in `arithmetic`, and in which type they are computed: itself, or the next
  // wider one that the device has.
  std::pair<Arithmetic, double> flops_of(Arithmetic arithmetic) const;
};

class DeviceCatalog {
 public:
  static Result<DeviceCatalog> builtin();
  // kInvalidArgument naming `where` and the key for what is missing, wrong or out of range.
  static Result<DeviceCatalog> parse(std::string_view text, std::string_view where);

  // Devices of a file replace those of the same name. Errors: those of parse(), and of
  // reading.
  Status add_file(const std::filesystem::path& path);

  // In order of the catalogue.
  const std::vector<PlanDevice>& devices() const { return devices_; }
  // By name, in any case, with or without "nvidia-" or "amd-", "_" or " " for "-".
  // kInvalidArgument naming the nearest, or all, otherwise.
  Result<PlanDevice> find(std::string_view name) const;

 private:
  std::vector<PlanDevice> devices_;
};

json::object to_json(const PlanDevice& device);

}  // namespace quire
