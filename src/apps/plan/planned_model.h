// A model to plan for: one that is here, or the config.json of one that is not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "models/spec.h"
#include "plan/number_format.h"

namespace quire {

struct PlannedModel {
  std::string name;
  DecoderSpec spec;
  NumberFormat format;        // of its weights
  std::string format_source;  // what says so: "--dtype", "config.json", "the files"
  std::int64_t max_len = 0;   // of a sequence
};

// `named` is what `quire inspect` accepts, or a config.json (a .json file, or a folder with one and
// no weights). Of a model that is not here nothing but the config.json, or the headers of its GGUF
// files, is fetched. `dtype` is auto or a name of find_number_format(); auto is what the files take
// in memory here (planned_weight_bytes), or what the config says. `max_len`: nullopt is what the
// model was trained for. Errors: those of opening a model; kInvalidArgument for a `max_len` beyond
// the model's, kUnimplemented for a quantization that no number format stands for.
Result<PlannedModel> open_planned_model(const std::string& named, const std::string& dtype,
                                        std::optional<std::int64_t> max_len);

}  // namespace quire
