// The fields of requests, route by route: which work, which are refused by name and which have
// no effect. Requests are read by these tables, and docs/compatibility.md is made from them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace quire {

enum class FieldEffect : std::uint8_t {
  kWorks,    // does what it says
  kNone,     // accepted, and changes nothing
  kRefused,  // would change what an answer means: refused by name unless its value asks for nothing
};

// Who has a field, for people.
enum FieldOrigin : std::uint8_t {
  kOpenAi = 1,
  kVllm = 2,  // beyond OpenAI's
  kBoth = kOpenAi | kVllm,
  kOthers = 4,  // llama.cpp and SGLang
  kOwn = 8,
};

struct RequestField {
  std::string_view name;
  FieldOrigin origin = kBoth;
  FieldEffect effect = FieldEffect::kWorks;
  // Of a refused field: whether `value` asks for nothing in this request.
  bool (*harmless)(const json::value& value, const json::object& request) = nullptr;
  // Of a refused field: the accepted values, for its error; empty where the feature itself is
  // missing. Of others a remark.
  std::string_view note = {};
};

struct FieldTable {
  std::string route;
  std::vector<RequestField> fields;

  const RequestField* find(std::string_view name) const;  // null: it is unknown
};

const FieldTable& completion_fields();
const FieldTable& chat_fields();
const FieldTable& response_fields();
const FieldTable& embedding_fields();
const FieldTable& tokenize_fields();
const FieldTable& detokenize_fields();
// All of them.
std::vector<const FieldTable*> request_field_tables();

// A table of fields that work and nothing else, for routes of our own.
FieldTable plain_fields(std::string_view route, std::span<const std::string_view> names);

// Whether a value says nothing: null, false, "", [], {}.
bool says_nothing(const json::value& value);

}  // namespace quire
