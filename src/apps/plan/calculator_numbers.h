// What the calculator computes with, in the server's page and in docs/calculator: devices, and of
// each model what a device of every layout has of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/plan/planned_model.h"
#include "base/json.h"
#include "base/status.h"
#include "plan/device_catalog.h"

namespace quire {

// {"models": {NAME: {"maxLen", "command", "footprints": {DTYPE: {TP: {PP: stages}}}}}, "dtypes":
// {DTYPE: bits of a weight}, "multipliedIn": {DTYPE: type}, "devices", "blockSize", "networkGbs"};
// stages and devices as `quire plan --json` has them. Types are those of number_formats(), and
// "auto" first where a model's files say how large its weights are.
Result<json::object> calculator_numbers(const std::vector<PlannedModel>& models,
                                        const std::vector<PlanDevice>& devices);

// Of the served model `named` (open_planned_model()), as text; with "first", what the page's form
// begins with: the model's own weights and sequences of `max_len` tokens. Its "command" is what
// somebody has `written` for it if that is a name on the hub, else its name without a folder of
// this machine.
Result<std::string> served_calculator_numbers(const std::string& named, const std::string& written,
                                              std::int64_t max_len);

}  // namespace quire
