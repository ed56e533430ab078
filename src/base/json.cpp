#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <boost/json/stream_parser.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.h"
#include "base/printable.h"

namespace quire {
namespace {

// Where a number is that is too large for a double (1e999), ".a[1].b"; nullopt if there is none.
// Boost.JSON reads it as infinity (0e999 as no number), which it then writes as no JSON. Recurses
// as deep as the parser has allowed.
std::optional<std::string> find_unbounded(const json::value& value) {
  if (const double* number = value.if_double()) {
    return std::isfinite(*number) ? std::nullopt : std::optional(std::string());
  }
  if (const json::array* array = value.if_array()) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (const auto rest = find_unbounded((*array)[i])) return fmt::format("[{}]{}", i, *rest);
    }
  } else if (const json::object* object = value.if_object()) {
    for (const auto& entry : *object) {
      if (const auto rest = find_unbounded(entry.value())) {
        return fmt::format(".{}{}", printable(entry.key()), *rest);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Result<json::value> parse_json(std::string_view text, std::string_view where, int max_depth) {
  json::parse_options options;
  options.max_depth = static_cast<std::size_t>(max_depth);
  json::stream_parser parser({}, options);
  json::error_code error;
  const std::size_t consumed = parser.write_some(text.data(), text.size(), error);
  if (!error) parser.finish(error);
  std::size_t rest = consumed;
  while (!error && rest < text.size()) {
    if (std::string_view(" \t\r\n").find(text[rest]) == std::string_view::npos) {
      error = json::error::extra_data;
      break;
    }
    ++rest;
  }
  if (error) {
    const std::string_view before = text.substr(0, std::min(rest, text.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t newline = before.rfind('\n');
    const std::size_t column =
        before.size() - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
    return Status::invalid_argument(fmt::format("{}: invalid JSON at line {}, column {}: {}", where,
                                                line, column, error.message()));
  }
  json::value value = parser.release();
  if (const auto place = find_unbounded(value)) {
    return Status::invalid_argument(
        fmt::format("{}: invalid JSON: the number at \"{}\" is out of range", where,
                    place->starts_with('.') ? place->substr(1) : *place));
  }
  return value;
}

Result<json::value> read_json_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, read_file(path, max_bytes));
  auto value = parse_json(text, path.string());
  if (!value.ok()) return Status::bad_model(value.status().message(), "fetch the file again");
  return value;
}

std::string_view json_kind_name(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
      return "an integer";
    case json::kind::double_:
      return "a number";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "a value";
}

const json::value* JsonReader::find(std::string_view key) const {
  const json::value* value = object_->if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Status JsonReader::type_error(std::string_view key, std::string_view expected) const {
  const json::value* value = object_->if_contains(key);
  return {code_, fmt::format("{}: {}: expected {}, found {}", where_, key, expected,
                             value == nullptr ? "nothing" : json_kind_name(*value))};
}

Status JsonReader::missing(std::string_view key) const {
  return {code_, fmt::format("{}: the key \"{}\" is missing", where_, key)};
}

Result<std::optional<std::int64_t>> JsonReader::find_int(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) return std::optional<std::int64_t>();
  if (const std::int64_t* i = value->if_int64()) return std::optional<std::int64_t>(*i);
  if (value->is_uint64()) {
    return Status(code_, fmt::format("{}: {}: {} is too large", where_, key, value->get_uint64()));
  }
  return type_error(key, "an integer");
}

Result<std::optional<double>> JsonReader::find_double(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return type_error(key, "a number");
  return std::optional<double>(value->to_number<double>());
}

Result<std::optional<bool>> JsonReader::find_bool(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_bool()) return type_error(key, "a boolean");
  return std::optional<bool>(value->get_bool());
}

Result<std::optional<std::string>> JsonReader::find_string(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return type_error(key, "a string");
  return std::optional<std::string>(std::string(value->get_string()));
}

Result<std::int64_t> JsonReader::get_int(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(const auto value, find_int(key));
  if (!value) return missing(key);
  return *value;
}

Result<double> JsonReader::get_double(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(const auto value, find_double(key));
  if (!value) return missing(key);
  return *value;
}

Result<std::string> JsonReader::get_string(std::string_view key) const {
  QUIRE_ASSIGN_OR_RETURN(auto value, find_string(key));
  if (!value) return missing(key);
  return *std::move(value);
}

Result<JsonReader> JsonReader::get_object(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) return missing(key);
  if (!value->is_object()) return type_error(key, "an object");
  return JsonReader(value->get_object(), fmt::format("{}: {}", where_, key), code_);
}

Result<const json::array*> JsonReader::get_items(std::string_view key) const {
  const json::value* value = find(key);
  if (value == nullptr) return missing(key);
  if (!value->is_array()) return type_error(key, "an array");
  if (value->get_array().empty()) {
    return Status(code_, fmt::format("{}: {}: the array is empty", where_, key));
  }
  return &value->get_array();
}

Status check_fields(const JsonReader& object, std::span<const std::string_view> fields) {
  for (const auto& field : object.object()) {
    const std::string_view key = field.key();
    if (std::ranges::find(fields, key) == fields.end()) {
      return Status::invalid_argument(
          fmt::format("{}: the field \"{}\" is not known", object.where(), key),
          fmt::format("known fields: {}", fmt::join(fields, ", ")));
    }
  }
  return {};
}

Result<std::vector<std::int32_t>> read_token_ids(const JsonReader& object, std::string_view key) {
  const json::value* value = object.find(key);
  if (value == nullptr || !value->is_array()) {
    return object.type_error(key, "an array of integers");
  }
  std::vector<std::int32_t> ids;
  ids.reserve(value->get_array().size());
  for (const json::value& item : value->get_array()) {
    if (!item.is_int64() || item.get_int64() < 0 ||
        item.get_int64() > std::numeric_limits<std::int32_t>::max()) {
      return Status::invalid_argument(fmt::format("{}: {}[{}]: {} is not a token id",
                                                  object.where(), key, ids.size(),
                                                  json::serialize(item)));
    }
    ids.push_back(static_cast<std::int32_t>(item.get_int64()));
  }
  return ids;
}

}  // namespace quire
