// The field's classic tables, each by one command, with its arithmetic in docs/planning.md.
#pragma once

#include <string>
#include <vector>

#include "apps/plan/device_plan.h"
#include "base/json.h"
#include "base/status.h"

namespace quire {

struct PlanTable {
  std::vector<std::string> columns;
  std::vector<json::array> rows;  // strings and numbers
  std::string note;
};

// Gigabytes (10^9) of so many parameters in types of 32, 16, 8 and 4 bits, nothing else counted.
PlanTable weights_table(const std::vector<std::string>& names, const std::vector<double>& counts);

// Of each model: KV bytes a token and GiB of a sequence of max_len tokens (of the model's own where
// that is less).
Result<PlanTable> kv_table(const std::vector<PlannedModel>& models, const PlanSettings& settings);

// KV bytes a token of each model as it is, and as if its heads had keys and values each (MHA), as
// if eight shared one (GQA), or all (MQA).
Result<PlanTable> attention_table(const std::vector<PlannedModel>& models,
                                  const PlanSettings& settings);

// GiB of weights and of 1 to 32 sequences of max_len tokens.
Result<PlanTable> batch_table(const PlannedModel& model, const PlanSettings& settings);

std::string table_text(const PlanTable& table);
json::object table_json(const PlanTable& table);

}  // namespace quire
