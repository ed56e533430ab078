#include "apps/plan/plan_flags.h"

#include <fmt/format.h>

#include "apps/count_option.h"
#include "apps/flag_values.h"
#include "apps/plan/plan_values.h"
#include "plan/number_format.h"

namespace quire {

void add_planned_model(CLI::App& app, PlannedModelFlags& flags, std::string& kv_dtype) {
  add_model(app, flags.model,
            "A config.json, or a model as for quire inspect (default: the bundled model)", "Model");
  app.add_option("--dtype", flags.dtype,
                 "Type of the weights; auto: the type in the files or the config")
      ->type_name("TYPE")
      ->check(known_names("auto|fp32|bf16|fp8|int8|int4|fp4"))
      ->capture_default_str()
      ->group("Model");
  app.add_option("--kv-cache-dtype", kv_dtype, "Type of keys and values")
      ->type_name("TYPE")
      ->check(one_of({"auto", "fp32", "float32", "bf16", "bfloat16", "fp8", "int8"}))
      ->capture_default_str()
      ->group("Model");
  add_count(app, "--max-model-len", flags.max_model_len,
            "Tokens of a sequence at most (default: the model's)", 1, 1LL << 30)
      ->group("Model");
}

Status check_dtype(const std::string& dtype) {
  const Status known = dtype == "auto" ? Status() : find_number_format(dtype).status();
  if (known.ok()) return known;
  return {known.code(), fmt::format("--dtype: {}", known.message()), known.remedy()};
}

void add_seconds(CLI::App& app, const std::string& name, std::optional<double>& target,
                 const std::string& description) {
  app.add_option_function<std::string>(
         name,
         [&target, name](const std::string& text) {
           const auto value = parse_seconds(text);
           if (!value.ok()) throw CLI::ValidationError(name, value.status().to_string());
           target = *value;
         },
         description)
      ->type_name("TIME");
}

void add_transfer_bandwidth(CLI::App& app, double& bandwidth, const std::string& description) {
  app.add_option_function<double>(
         "--transfer-gbs", [&bandwidth](double gigabytes) { bandwidth = gigabytes * 1e9; },
         description)
      ->type_name("NUMBER")
      ->check(number(0, 1e6, /*above=*/true))
      ->default_str("50");
}

}  // namespace quire
