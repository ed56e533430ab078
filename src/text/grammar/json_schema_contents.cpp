#include "text/grammar/json_schema_contents.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "text/grammar/distinct_states.h"

namespace quire {
namespace {

// Keywords that say nothing of what is valid, nor where schemas are.
constexpr std::array<std::string_view, 10> kRemarks = {
    "title",      "description", "default",   "examples",        "$comment",
    "deprecated", "readOnly",    "writeOnly", "contentEncoding", "contentMediaType"};

bool is_remark(std::string_view key) { return std::ranges::find(kRemarks, key) != kRemarks.end(); }

std::uint64_t mixed_with_text(std::uint64_t hash, std::string_view text) {
  return mixed(hash, std::hash<std::string_view>()(text));
}

}  // namespace

std::uint64_t JsonSchemaContents::hash_of(const json::value& value) const {
  const auto kind = static_cast<std::uint64_t>(value.kind());
  switch (value.kind()) {
    case json::kind::null:
      return kind;
    case json::kind::bool_:
      return mixed(kind, value.get_bool() ? 1 : 0);
    case json::kind::int64:
      return mixed(kind, static_cast<std::uint64_t>(value.get_int64()));
    case json::kind::uint64:
      return mixed(kind, value.get_uint64());
    case json::kind::double_:
      return mixed(kind, std::bit_cast<std::uint64_t>(value.get_double()));
    case json::kind::string:
      return mixed_with_text(kind, value.get_string());
    case json::kind::array: {
      std::uint64_t hash = kind;
      for (const json::value& item : value.get_array()) hash = mixed(hash, hash_of(item));
      return hash;
    }
    case json::kind::object: {
      const auto noted = numbers_.find(&value);
      if (noted != numbers_.end()) return mixed(~kind, noted->second);
      std::uint64_t hash = kind;
      for (const auto& entry : value.get_object()) {
        hash = mixed(mixed_with_text(hash, entry.key()), hash_of(entry.value()));
      }
      return hash;
    }
  }
  return kind;
}

std::uint64_t JsonSchemaContents::hash_of_schema(const json::object& schema) const {
  std::uint64_t hash = 0;
  for (const auto& entry : schema) {
    if (is_remark(entry.key())) continue;
    hash = mixed(mixed_with_text(hash, entry.key()), hash_of(entry.value()));
  }
  return hash;
}

bool JsonSchemaContents::are_equal(const json::value& a, const json::value& b) const {
  if (a.kind() != b.kind()) return false;
  if (a.is_array()) {
    return std::ranges::equal(
        a.get_array(), b.get_array(),
        [this](const json::value& x, const json::value& y) { return are_equal(x, y); });
  }
  if (!a.is_object()) return a == b;
  const auto noted = numbers_.find(&a);
  const auto other = numbers_.find(&b);
  if (noted != numbers_.end() || other != numbers_.end()) {
    return noted != numbers_.end() && other != numbers_.end() && noted->second == other->second;
  }
  // Members in another order are other members: texts have them as the schema does.
  return std::ranges::equal(a.get_object(), b.get_object(), [this](const auto& x, const auto& y) {
    return x.key() == y.key() && are_equal(x.value(), y.value());
  });
}

bool JsonSchemaContents::are_equal_schemas(const json::object& a, const json::object& b) const {
  const auto next = [](json::object::const_iterator at, const json::object& of) {
    while (at != of.end() && is_remark(at->key())) ++at;
    return at;
  };
  auto x = next(a.begin(), a);
  auto y = next(b.begin(), b);
  while (x != a.end() && y != b.end()) {
    if (x->key() != y->key() || !are_equal(x->value(), y->value())) return false;
    x = next(++x, a);
    y = next(++y, b);
  }
  return x == a.end() && y == b.end();
}

void JsonSchemaContents::add(const json::value& schema) {
  const json::object& object = schema.get_object();
  const auto fresh = static_cast<Number>(firsts_.size());
  // One candidate alone: schemas made to have one hash are told apart, and cost no more.
  const auto [known, is_fresh] = by_hash_.try_emplace(hash_of_schema(object), fresh);
  if (!is_fresh && are_equal_schemas(object, firsts_[known->second]->get_object())) {
    numbers_.emplace(&schema, known->second);
    return;
  }
  numbers_.emplace(&schema, fresh);
  firsts_.push_back(&schema);
}

const json::value& JsonSchemaContents::first_like(const json::value& schema) const {
  const auto noted = numbers_.find(&schema);
  return noted == numbers_.end() ? schema : *firsts_[noted->second];
}

}  // namespace quire
