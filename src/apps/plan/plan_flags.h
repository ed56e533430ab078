// Flags that `quire plan` and `quire simulate` share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "base/status.h"

namespace quire {

struct PlannedModelFlags {
  std::string model;
  std::string dtype = "auto";
  std::optional<std::int64_t> max_model_len;
};

// The model, its types and its longest sequence.
void add_planned_model(CLI::App& app, PlannedModelFlags& flags, std::string& kv_dtype);

// Whether a --dtype is known, before a model is opened.
Status check_dtype(const std::string& dtype);

// --transfer-gbs: gigabytes a second, as bytes a second in `bandwidth`.
void add_transfer_bandwidth(CLI::App& app, double& bandwidth, const std::string& description);

// A time as parse_seconds() reads it.
void add_seconds(CLI::App& app, const std::string& name, std::optional<double>& target,
                 const std::string& description);

}  // namespace quire
