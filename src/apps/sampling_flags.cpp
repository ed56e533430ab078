#include "apps/sampling_flags.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "apps/count_option.h"
#include "apps/flag_values.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "engine/constraints/constraint_grammar.h"
#include "serve/protocols/sampling_fields.h"

namespace quire {
namespace {

using Kind = SamplingFieldKind;

// What a field's value looks like, for people.
std::string_view value_form(Kind kind) {
  switch (kind) {
    case Kind::kInteger:
      return "a count";
    case Kind::kNumber:
      return "a number";
    case Kind::kStrings:
      return "a text";
    case Kind::kTokenIds:
      return "token ids with commas between them";
    case Kind::kBiases:
    case Kind::kStructuredOutputs:
      return "a JSON object";
    case Kind::kEarlyStopping:
      return "true, false or never";
    case Kind::kBoolean:
      break;
  }
  return "true or false";
}

// A text as the JSON value that the field's reader expects. Errors do not name the field.
Result<json::value> value_of(const SamplingField& field, const std::string& text) {
  if (field.kind == Kind::kStrings) return json::value(json::array{text});
  if (field.kind == Kind::kInteger) {
    QUIRE_ASSIGN_OR_RETURN(const std::int64_t count, parse_count(text));
    return json::value(count);
  }
  if (field.kind == Kind::kEarlyStopping && text == "never") return json::value(text);
  auto parsed = parse_json(field.kind == Kind::kTokenIds ? "[" + text + "]" : text, field.name);
  if (parsed.ok()) return parsed;
  return Status::invalid_argument(
      fmt::format("expected {}, found {}", value_form(field.kind), printable(text, 40)));
}

// The same of a flag, which may be given several times.
json::value flag_value(const SamplingField& field, const std::string& flag,
                       const std::vector<std::string>& texts) {
  if (field.kind == Kind::kStrings) return json::array(texts.begin(), texts.end());
  auto value = value_of(field, texts.back());
  if (!value.ok()) throw CLI::ValidationError(flag, value.status().to_string());
  return *std::move(value);
}

std::string flag_name(std::string_view name) {
  std::string flag = "--" + std::string(name);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

// Those that people change; the others stand at the end of --help.
constexpr std::array<std::string_view, 7> kUsual = {"temperature", "top_p", "top_k", "min_p",
                                                    "max_tokens",  "stop",  "n"};

// "0 to 2", from the words of JSON Schema.
std::string range_of(const json::object& rules) {
  const auto bound = [&rules](std::string_view rule) -> std::string {
    const json::value* value = rules.if_contains(rule);
    return value == nullptr ? "" : json::serialize(*value);
  };
  const std::string low = bound("minimum");
  const std::string above = bound("exclusiveMinimum");
  const std::string high = bound("maximum");
  if (!above.empty()) {
    return "above " + above + (high.empty() ? "" : ", at most " + high);
  }
  if (low.empty()) return {};
  return high.empty() ? "at least " + low : fmt::format("{} to {}", low, high);
}

std::string_view value_name(Kind kind) {
  switch (kind) {
    case Kind::kInteger:
      return "N";
    case Kind::kNumber:
      return "NUMBER";
    case Kind::kStrings:
      return "TEXT";
    case Kind::kTokenIds:
      return "ID,ID,...";
    case Kind::kBiases:
    case Kind::kStructuredOutputs:
      return "JSON";
    case Kind::kEarlyStopping:
      return "true|false|never";
    case Kind::kBoolean:
      break;
  }
  return "";
}

}  // namespace

Result<json::value> parse_sampling_value(const std::string& name, const std::string& text) {
  std::vector<std::string> names;
  for (const SamplingField& field : sampling_fields()) {
    if (field.name == name) {
      auto value = value_of(field, text);
      if (value.ok()) return value;
      return Status::invalid_argument(fmt::format("{}: {}", name, value.status().message()),
                                      value.status().remedy());
    }
    names.emplace_back(field.name);
  }
  const auto suggestion = nearest(name, names);
  return Status::invalid_argument(
      fmt::format("there is no sampling parameter {}", name),
      suggestion ? fmt::format("did you mean {}?", *suggestion) : "quire chat --help lists them");
}

namespace {

// Whether a constraint can be read, as far as that asks no vocabulary.
Status check_constraint(const StructuredOutputsParams* constraint) {
  if (constraint == nullptr || constraint->structural_tag) return {};
  GrammarBudget budget;
  const Status status = constraint_grammar(*constraint, budget).status();
  if (status.ok()) return {};
  const StatusCode code = status.code() == StatusCode::kResourceExhausted
                              ? StatusCode::kInvalidArgument
                              : status.code();
  return {code, fmt::format("{}: {}", constraint->field, status.message()), status.remedy()};
}

}  // namespace

Status check_sampling_fields(const json::object& given, std::optional<std::int64_t> max_logprobs) {
  SamplingParams params;
  params.max_tokens = std::numeric_limits<std::int32_t>::max();  // left out: what the model allows
  QUIRE_RETURN_IF_ERROR(read_sampling_fields(
      JsonReader(given, "command line", StatusCode::kInvalidArgument), params));
  // Which tokens there are the engine knows.
  constexpr std::int64_t kAny = std::numeric_limits<std::int32_t>::max();
  QUIRE_RETURN_IF_ERROR(params.validate(kAny, max_logprobs.value_or(kAny)));
  return check_constraint(params.structured_outputs.get());
}

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
      // Strings may contain anything, commas too, and come one a flag.
      option->expected(1)->type_name(std::string(value_name(field.kind)));
      option->check(known_names(range_of(field.rules)));
      option->multi_option_policy(field.kind == Kind::kStrings ? CLI::MultiOptionPolicy::TakeAll
                                                               : CLI::MultiOptionPolicy::TakeLast);
      const auto* standard = field.rules.if_contains("default");
      if (standard != nullptr) option->default_str(json::serialize(*standard));
    }
    const bool usual = std::ranges::find(kUsual, field.name) != kUsual.end();
    option->group(usual ? group : std::string(kRarelyNeeded) + "sampling");
  }
}

}  // namespace quire
