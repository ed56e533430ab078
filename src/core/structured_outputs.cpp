#include "core/structured_outputs.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quire {

std::size_t StructuredOutputsParams::num_bytes() const {
  std::size_t bytes = 0;
  for (const auto* text : {&json, &regex, &grammar, &structural_tag, &whitespace_pattern}) {
    if (*text) bytes += (*text)->size();
  }
  for (const std::string& each : choice) bytes += each.size();
  return bytes;
}

Status StructuredOutputsParams::validate() const {
  std::vector<std::string_view> given;
  if (json) given.emplace_back("json");
  if (regex) given.emplace_back("regex");
  if (!choice.empty()) given.emplace_back("choice");
  if (grammar) given.emplace_back("grammar");
  if (json_object) given.emplace_back("json_object");
  if (structural_tag) given.emplace_back("structural_tag");
  if (given.size() != 1) {
    return Status::invalid_argument(
        fmt::format("{}: {} constraints are given{}{}", field, given.empty() ? "no" : "several",
                    given.empty() ? "" : ": ", fmt::join(given, ", ")),
        "give exactly one of json, regex, choice, grammar, json_object and structural_tag");
  }
  for (const auto* text : {&json, &grammar, &structural_tag}) {
    if (*text && (*text)->empty()) {
      return Status::invalid_argument(fmt::format("{}: {} is empty", field, given.front()));
    }
  }
  if (!json && !json_object &&
      (disable_any_whitespace || disable_additional_properties || whitespace_pattern)) {
    return Status::invalid_argument(
        fmt::format("{}: {} has no option of JSON texts (disable_any_whitespace, "
                    "disable_additional_properties, whitespace_pattern)",
                    field, given.front()));
  }
  if (disable_any_whitespace && whitespace_pattern) {
    return Status::invalid_argument(
        fmt::format("{}: whitespace_pattern contradicts disable_any_whitespace", field));
  }
  if (choice.size() > kMaxChoices) {
    return Status::invalid_argument(fmt::format("{}: choice has {} texts; at most {} are allowed",
                                                field, choice.size(), kMaxChoices));
  }
  if (std::ranges::any_of(choice, &std::string::empty) && choice.size() == 1) {
    return Status::invalid_argument(fmt::format("{}: choice: the only text is empty", field));
  }
  if (num_bytes() > kMaxBytes) {
    return Status::invalid_argument(fmt::format(
        "{}: {} bytes of constraint; at most {} are allowed", field, num_bytes(), kMaxBytes));
  }
  return {};
}

}  // namespace quire
