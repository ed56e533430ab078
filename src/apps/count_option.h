// Counts on the command line: "512", "8k" (8,000), "8K" (8,192), "2m", "2M", "1g", "1G".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <CLI/CLI.hpp>

#include "apps/flag_values.h"
#include "base/status.h"

namespace quire {

Result<std::int64_t> parse_count(std::string_view text);

// Adds an option whose value is a count in [low, high]. `target` is an integer or an optional one.
template <typename T>
CLI::Option* add_count(CLI::App& app, const std::string& name, T& target,
                       const std::string& description, std::int64_t low, std::int64_t high) {
  auto* option = app.add_option_function<std::string>(
      name,
      [&target, name, low, high](const std::string& text) {
        const auto value = parse_count(text);
        if (!value.ok()) throw CLI::ValidationError(name, value.status().to_string());
        if (*value < low || *value > high) {
          throw CLI::ValidationError(name, "expected " + std::to_string(low) + " to " +
                                               std::to_string(high) + ", found " + text);
        }
        if constexpr (std::is_integral_v<T>) {
          target = static_cast<T>(*value);
        } else {
          target = static_cast<typename T::value_type>(*value);
        }
      },
      description);
  option->type_name("N")->check(known_names(range_text(low, high)));
  if constexpr (std::is_integral_v<T>) option->default_str(std::to_string(target));
  return option;
}

}  // namespace quire
