#include "apps/sampling_flags.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/count_option.h"
#include "serve/protocols/sampling_fields.h"

namespace quire {
namespace {

using Kind = SamplingFieldKind;

// A flag's text as the JSON value that the field's reader takes.
json::value flag_value(const SamplingField& field, const std::string& flag,
                       const std::vector<std::string>& texts) {
  const auto refuse = [&](const std::string& reason) { throw CLI::ValidationError(flag, reason); };
  if (field.kind == Kind::kStrings) return json::array(texts.begin(), texts.end());
  const std::string& text = texts.back();
  if (field.kind == Kind::kInteger) {
    const auto count = parse_count(text);
    if (!count.ok()) refuse(count.status().to_string());
    return *count;
  }
  const auto parsed = parse_json(field.kind == Kind::kTokenIds ? "[" + text + "]" : text, flag);
  if (!parsed.ok()) refuse(fmt::format("\"{}\" is not what {} takes", text, flag));
  return *parsed;
}

std::string flag_name(std::string_view name) {
  std::string flag = "--" + std::string(name);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string_view value_name(Kind kind) {
  switch (kind) {
    case Kind::kInteger:
      return "N";
    case Kind::kNumber:
      return "FLOAT";
    case Kind::kStrings:
      return "TEXT";
    case Kind::kTokenIds:
      return "ID,ID,...";
    case Kind::kBiases:
      return "JSON";
    case Kind::kBoolean:
      break;
  }
  return "";
}

}  // namespace

void add_sampling_flags(CLI::App& app, json::object& given, const std::string& group) {
  for (const SamplingField& field : sampling_fields()) {
    if (field.name == "seed") continue;  // --seed is the engine's
    const std::string flag = flag_name(field.name);
    const std::string description(field.description);
    CLI::Option* option = nullptr;
    if (field.kind == Kind::kBoolean) {
      const bool on = field.rules.at("default").get_bool();
      const std::string names = on ? flag + ",!--no-" + flag.substr(2) : flag;
      option = app.add_flag_function(
          names, [&field, &given](std::int64_t count) { given[field.name] = count > 0; },
          description);
    } else {
      option = app.add_option_function<std::vector<std::string>>(
          flag,
          [&field, &given, flag](const std::vector<std::string>& texts) {
            given[field.name] = flag_value(field, flag, texts);
          },
          description);
      // Strings may hold anything, commas too, and come one a flag.
      option->expected(1)->type_name(std::string(value_name(field.kind)));
      option->multi_option_policy(field.kind == Kind::kStrings ? CLI::MultiOptionPolicy::TakeAll
                                                               : CLI::MultiOptionPolicy::TakeLast);
      const auto* standard = field.rules.if_contains("default");
      if (standard != nullptr) option->default_str(json::serialize(*standard));
    }
    option->group(group);
  }
}

}  // namespace quire
