// type, enum, const, and what is said of numbers and strings.
#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "text/grammar/json_schema_characters.h"
#include "text/grammar/json_schema_formats.h"
#include "text/grammar/json_schema_space.h"
#include "text/grammar/regex.h"

namespace quire {
namespace {

Status add_type(const SchemaContext& schema, const json::value& value, Shape& shape) {
  const json::string* name = value.if_string();
  if (name == nullptr) return schema.space->invalid(value, "type", "expected a name or names");
  GrammarBudget& budget = schema.space->budget();
  const Shape all = Shape::all();
  if (*name == "null") {
    shape.null_value = true;
  } else if (*name == "boolean") {
    shape.true_value = shape.false_value = true;
  } else if (*name == "number") {
    shape.numbers = NumberSet::all();
  } else if (*name == "integer") {
    NumberSet integers = NumberSet::integers();
    if (schema.draft == SchemaDraft::kDraft4) integers = NumberSet::integers_without_point();
    QUIRE_ASSIGN_OR_RETURN(shape.numbers, unite(shape.numbers, integers, budget));
  } else if (*name == "string") {
    shape.strings = StringSet::all();
  } else if (*name == "array") {
    shape.arrays = all.arrays;
  } else if (*name == "object") {
    shape.objects = all.objects;
  } else {
    return schema.space->invalid(value, "type",
                                 fmt::format("{} is no type", printable(std::string_view(*name))));
  }
  return {};
}

Result<Shape> type_shape(const SchemaContext& schema) {
  const json::value* type = schema.find("type");
  if (type == nullptr) return Shape::all();
  Shape shape;
  if (const json::array* names = type->if_array()) {
    for (const json::value& name : *names) QUIRE_RETURN_IF_ERROR(add_type(schema, name, shape));
    return shape;
  }
  QUIRE_RETURN_IF_ERROR(add_type(schema, *type, shape));
  return shape;
}

Result<std::optional<Decimal>> number_at(const SchemaContext& schema, std::string_view keyword) {
  const json::value* value = schema.find(keyword);
  if (value == nullptr) return std::optional<Decimal>();
  if (!value->is_number()) return schema.space->invalid(*value, keyword, "expected a number");
  return std::optional(decimal_of(*value));
}

// Draft 4: `exclusiveMinimum: true` beside `minimum`.
bool is_flagged(const SchemaContext& schema, std::string_view keyword) {
  const json::value* value = schema.find(keyword);
  return schema.until(SchemaDraft::kDraft4) && value != nullptr && value->is_bool() &&
         value->get_bool();
}

Result<NumberSet> number_keywords(const SchemaContext& schema) {
  GrammarBudget& budget = schema.space->budget();
  NumberSet numbers = NumberSet::all();
  for (const bool lower : {true, false}) {
    const std::string_view plain = lower ? "minimum" : "maximum";
    const std::string_view exclusive = lower ? "exclusiveMinimum" : "exclusiveMaximum";
    QUIRE_ASSIGN_OR_RETURN(const std::optional<Decimal> bound, number_at(schema, plain));
    const auto narrow = [&](const Decimal& at, bool without) -> Status {
      const NumberSet side =
          lower ? NumberSet::at_least(at, without) : NumberSet::at_most(at, without);
      QUIRE_ASSIGN_OR_RETURN(numbers, intersect(numbers, side, budget));
      return {};
    };
    if (bound) QUIRE_RETURN_IF_ERROR(narrow(*bound, is_flagged(schema, exclusive)));
    const json::value* other = schema.find(exclusive);
    const bool flag = other != nullptr && other->is_bool() && schema.until(SchemaDraft::kDraft4);
    if (other == nullptr || flag) continue;
    if (schema.draft == SchemaDraft::kDraft4) {
      return schema.space->invalid(*other, exclusive, "expected a boolean in draft 4");
    }
    QUIRE_ASSIGN_OR_RETURN(const std::optional<Decimal> open, number_at(schema, exclusive));
    QUIRE_RETURN_IF_ERROR(narrow(*open, true));
  }
  QUIRE_ASSIGN_OR_RETURN(const std::optional<Decimal> divisor, number_at(schema, "multipleOf"));
  if (divisor) {
    if (divisor->negative || divisor->is_zero()) {
      return schema.space->invalid(*schema.find("multipleOf"), "multipleOf",
                                   "expected a number above 0");
    }
    const Result<NumberSet> multiples = NumberSet::multiple_of(*divisor);
    if (!multiples.ok()) {
      if (multiples.status().code() != StatusCode::kUnimplemented) return multiples.status();
      return schema.space->refused(*schema.find("multipleOf"), "multipleOf",
                                   multiples.status().message(), multiples.status().remedy());
    }
    QUIRE_ASSIGN_OR_RETURN(numbers, intersect(numbers, *multiples, budget));
  }
  return numbers;
}

Result<StringSet> space_format(const SchemaContext& schema, const json::value& format) {
  const std::string name(format.get_string());
  if (const StringSet* known = schema.space->known_set("format " + name)) return *known;
  const Result<std::optional<FormatLanguage>> language = schema_format(name);
  if (!language.ok()) {
    return schema.space->refused(format, "format", language.status().message(),
                                 language.status().remedy());
  }
  StringSet set = StringSet::all();
  if (*language) {
    OpenTexts more = (**language).more;
    if ((**language).is_partial) {
      const Status refused = schema.space->refused(
          format, "format", fmt::format("{} is not supported under not, oneOf or if", name),
          "use a pattern there");
      more.around =
          std::make_shared<const TextsAround>([refused]() -> Result<Dfa> { return refused; });
    }
    set = StringSet::kept((**language).meant, (**language).spelled, std::move(more));
  }
  schema.space->keep_set("format " + name, set);
  return set;
}

Result<StringSet> string_keywords(const SchemaContext& schema) {
  GrammarBudget& budget = schema.space->budget();
  QUIRE_ASSIGN_OR_RETURN(const std::optional<std::int64_t> min, schema.count("minLength"));
  QUIRE_ASSIGN_OR_RETURN(const std::optional<std::int64_t> max, schema.count("maxLength"));
  constexpr std::int64_t kLongest = 1'000'000'000;
  std::optional<std::uint32_t> most;
  if (max && *max < kLongest) most = static_cast<std::uint32_t>(*max);
  const auto least = static_cast<std::uint32_t>(std::min(min.value_or(0), kLongest));
  const json::value* pattern = schema.find("pattern");
  const json::value* format = schema.find("format");
  if (!schema.space->options().assert_format) format = nullptr;
  if (pattern == nullptr && format == nullptr) return StringSet::length(least, most);
  const std::string key =
      fmt::format("string {} {} {} {}", least, most ? std::to_string(*most) : "any",
                  pattern == nullptr ? "" : json::serialize(*pattern),
                  format == nullptr ? "" : json::serialize(*format));
  if (const StringSet* known = schema.space->known_set(key)) return *known;
  StringSet strings = StringSet::all();
  if (pattern != nullptr) {
    if (!pattern->is_string()) {
      return schema.space->invalid(*pattern, "pattern", "expected a regular expression");
    }
    QUIRE_ASSIGN_OR_RETURN(strings,
                           schema_pattern(schema, "pattern", *pattern, pattern->get_string()));
  }
  if (format != nullptr) {
    if (!format->is_string()) return schema.space->invalid(*format, "format", "expected a name");
    QUIRE_ASSIGN_OR_RETURN(const StringSet formatted, space_format(schema, *format));
    QUIRE_ASSIGN_OR_RETURN(strings, intersect(strings, formatted, budget));
  }
  const bool is_shorter = strings.more().automaton != nullptr && most >= strings.more().max_length;
  if (most && strings.kind() == StringSet::Kind::kRegular && !is_shorter) {
    QUIRE_ASSIGN_OR_RETURN(const std::shared_ptr<const CharacterAutomaton> automaton,
                           strings.characters(budget));
    QUIRE_ASSIGN_OR_RETURN(
        const std::uint32_t longest,
        countable_length(*automaton, *most, JsonSchemaOptions::kMaxPatternStates, budget));
    if (longest < *most && longest < JsonSchemaOptions::kMinPatternLength) {
      return schema.space->refused(
          *schema.find("maxLength"), "maxLength",
          fmt::format("with a pattern or format of {} states at most {} characters can be counted",
                      automaton->num_states(), longest),
          "use a simpler pattern, or leave maxLength out");
    }
    most = std::max(least, longest);
  }
  QUIRE_ASSIGN_OR_RETURN(strings, intersect(strings, StringSet::length(least, most), budget));
  schema.space->keep_set(key, strings);
  return strings;
}

}  // namespace

Result<StringSet> schema_pattern(const SchemaContext& schema, std::string_view keyword,
                                 const json::value& place, std::string_view pattern) {
  const std::string key = fmt::format("pattern {}", pattern);
  if (const StringSet* known = schema.space->known_set(key)) return *known;
  RegexOptions options;
  options.dialect = RegexOptions::Dialect::kEcma;
  options.whole_text = false;
  Result<Dfa> language = regex_to_dfa(pattern, options, schema.space->budget());
  if (language.ok()) {
    StringSet set = StringSet::regular(std::move(*language));
    schema.space->keep_set(key, set);
    return set;
  }
  const Status& status = language.status();
  if (status.code() == StatusCode::kInvalidArgument) {
    return schema.space->invalid(place, keyword, status.message());
  }
  if (status.code() == StatusCode::kUnimplemented) {
    return schema.space->refused(place, keyword, status.message(), status.remedy());
  }
  return status;
}

Result<Shape> shape_of_constant(const json::value& value, SchemaSpace& space) {
  Shape shape;
  switch (value.kind()) {
    case json::kind::null:
      shape.null_value = true;
      return shape;
    case json::kind::bool_:
      (value.get_bool() ? shape.true_value : shape.false_value) = true;
      return shape;
    case json::kind::int64:
    case json::kind::uint64:
    case json::kind::double_: {
      const Decimal number = decimal_of(value);
      QUIRE_ASSIGN_OR_RETURN(shape.numbers, NumberSet::equal_to({&number, 1}, space.budget()));
      return shape;
    }
    case json::kind::string:
      shape.strings = StringSet::these({std::string(value.get_string())});
      return shape;
    case json::kind::array: {
      ArrayCase array;
      for (const json::value& item : value.get_array()) {
        array.prefix.push_back(space.formulas().constant(item));
      }
      array.rest = kFalseFormula;
      array.min = static_cast<std::int64_t>(array.prefix.size());
      array.max = array.min;
      shape.arrays.push_back(std::move(array));
      return shape;
    }
    case json::kind::object: {
      ObjectCase object;
      std::vector<std::string> names;
      for (const auto& entry : value.get_object()) {
        names.emplace_back(entry.key());
        object.named.push_back({names.back(), space.formulas().constant(entry.value()), true, 0});
      }
      object.each.push_back({StringSet::all_but(std::move(names)), kFalseFormula});
      shape.objects.push_back(std::move(object));
      return shape;
    }
  }
  return shape;
}

namespace {

// The values of `enum`; strings and numbers in one go, for there may be thousands.
Result<Shape> enum_shape(const SchemaContext& schema, const json::value& values) {
  const json::array* array = values.if_array();
  if (array == nullptr) return schema.space->invalid(values, "enum", "expected a list of values");
  std::vector<std::string> texts;
  std::vector<Decimal> numbers;
  Shape shape;
  for (const json::value& value : *array) {
    QUIRE_RETURN_IF_ERROR(schema.space->budget().tick(16));
    if (const json::string* text = value.if_string()) {
      texts.emplace_back(*text);
    } else if (value.is_number()) {
      numbers.push_back(decimal_of(value));
    } else {
      QUIRE_ASSIGN_OR_RETURN(Shape one, shape_of_constant(value, *schema.space));
      QUIRE_ASSIGN_OR_RETURN(shape,
                             unite(std::move(shape), std::move(one), schema.space->context()));
    }
  }
  shape.strings = StringSet::these(std::move(texts));
  QUIRE_ASSIGN_OR_RETURN(shape.numbers, NumberSet::equal_to(numbers, schema.space->budget()));
  return shape;
}

}  // namespace

Result<Shape> shape_of_keywords(const SchemaContext& schema) {
  SchemaSpace& space = *schema.space;
  QUIRE_ASSIGN_OR_RETURN(Shape shape, type_shape(schema));
  if (const json::value* values = schema.find("enum")) {
    QUIRE_ASSIGN_OR_RETURN(const Shape listed, enum_shape(schema, *values));
    QUIRE_ASSIGN_OR_RETURN(shape, intersect(shape, listed, space.context()));
  }
  const json::value* constant = schema.find("const");
  if (constant != nullptr && schema.since(SchemaDraft::kDraft6)) {
    QUIRE_ASSIGN_OR_RETURN(const Shape one, shape_of_constant(*constant, space));
    QUIRE_ASSIGN_OR_RETURN(shape, intersect(shape, one, space.context()));
  }
  // Keywords of types that cannot be are of no effect.
  if (!shape.numbers.is_none()) {
    QUIRE_ASSIGN_OR_RETURN(const NumberSet numbers, number_keywords(schema));
    QUIRE_ASSIGN_OR_RETURN(shape.numbers, intersect(shape.numbers, numbers, space.budget()));
  }
  if (!shape.strings.is_none()) {
    QUIRE_ASSIGN_OR_RETURN(const StringSet strings, string_keywords(schema));
    QUIRE_ASSIGN_OR_RETURN(shape.strings, intersect(shape.strings, strings, space.budget()));
  }
  Shape containers = Shape::all();
  if (!shape.arrays.empty()) {
    QUIRE_ASSIGN_OR_RETURN(containers.arrays.front(), array_keywords(schema));
  }
  if (!shape.objects.empty()) {
    QUIRE_ASSIGN_OR_RETURN(containers.objects.front(), object_keywords(schema));
  }
  return intersect(shape, containers, space.context());
}

}  // namespace quire
