// JSON at the edges: bounded parsing with a position in the error, and typed access by key that
// says what was expected and what was found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "base/status.h"

namespace quire {

namespace json = boost::json;

// Parses one JSON text (nesting up to `max_depth`). `where` names the source in errors.
Result<json::value> parse_json(std::string_view text, std::string_view where, int max_depth = 64);

// Reads and parses a file of at most `max_bytes`.
Result<json::value> read_json_file(const std::filesystem::path& path, std::uint64_t max_bytes);

// A JSON object together with the name of its source, for typed access by key. A key that is absent
// or null counts as missing. `find_*` return nullopt for a missing key, `get_*` an error; both
// return an error for a value of another type: "config.json: hidden_size: expected an integer,
// found a string". Borrows the object; error code is `code`.
class JsonReader {
 public:
  JsonReader(const json::object& object, std::string where, StatusCode code = StatusCode::kBadModel)
      : object_(&object), where_(std::move(where)), code_(code) {}

  const json::object& object() const { return *object_; }
  const std::string& where() const { return where_; }
  const json::value* find(std::string_view key) const;  // nullptr if missing or null
  bool contains(std::string_view key) const { return find(key) != nullptr; }

  Result<std::optional<std::int64_t>> find_int(std::string_view key) const;
  Result<std::optional<double>> find_double(std::string_view key) const;
  Result<std::optional<bool>> find_bool(std::string_view key) const;
  Result<std::optional<std::string>> find_string(std::string_view key) const;

  Result<std::int64_t> get_int(std::string_view key) const;
  Result<double> get_double(std::string_view key) const;
  Result<std::string> get_string(std::string_view key) const;
  Result<JsonReader> get_object(std::string_view key) const;
  // Of an array that is not empty. Borrowed as the object is.
  Result<const json::array*> get_items(std::string_view key) const;

  // "where: key: expected ..., found ...".
  Status type_error(std::string_view key, std::string_view expected) const;

 private:
  Status missing(std::string_view key) const;

  const json::object* object_;
  std::string where_;
  StatusCode code_;
};

// "an integer", "a string", ... for messages.
std::string_view json_kind_name(const json::value& value);

// kInvalidArgument for the first key of `object` that is not among `fields`, naming both.
Status check_fields(const JsonReader& object, std::span<const std::string_view> fields);

// The token ids under `key`, which must be there. kInvalidArgument for what cannot be a token id;
// the vocabulary is not consulted.
Result<std::vector<std::int32_t>> read_token_ids(const JsonReader& object, std::string_view key);

}  // namespace quire
