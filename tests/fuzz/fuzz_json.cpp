// Any bytes as a JSON text: an error that says where, or a value no deeper than allowed that reads
// as the same value once written (its fractions but for rounding), and whose fields can be asked
// for as anything.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/json.h"

namespace {

constexpr int kMaxDepth = 16;

int depth(const quire::json::value& value) {
  int deepest = 0;
  if (value.is_array()) {
    for (const auto& each : value.get_array()) deepest = std::max(deepest, depth(each));
    return deepest + 1;
  }
  if (value.is_object()) {
    for (const auto& each : value.get_object()) deepest = std::max(deepest, depth(each.value()));
    return deepest + 1;
  }
  return 0;
}

// Boost.JSON rounds what it reads, and a number of 17 digits not always to the nearest double.
bool same_number(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-15 * std::abs(a) || std::abs(a - b) < 1e-300;
}

bool same(const quire::json::value& a, const quire::json::value& b) {
  if (a.is_double()) return b.is_number() && same_number(a.get_double(), b.to_number<double>());
  if (a.is_array() && b.is_array()) {
    return std::ranges::equal(a.get_array(), b.get_array(), same);
  }
  if (a.is_object() && b.is_object()) {
    return a.get_object().size() == b.get_object().size() &&
           std::ranges::all_of(a.get_object(), [&](const auto& entry) {
             const auto* other = b.get_object().if_contains(entry.key());
             return other != nullptr && same(entry.value(), *other);
           });
  }
  return a == b;
}

template <typename T>
void check_error(const quire::Result<T>& result, std::string_view key) {
  if (!result.ok() && result.status().message().find(key) == std::string::npos) std::abort();
}

void ask_for_fields(const quire::json::object& object) {
  const quire::JsonReader reader(object, "fuzz", quire::StatusCode::kInvalidArgument);
  for (const auto& entry : object) {
    const std::string_view key = entry.key();
    check_error(reader.find_int(key), key);
    check_error(reader.find_double(key), key);
    check_error(reader.find_bool(key), key);
    check_error(reader.find_string(key), key);
    check_error(reader.get_int(key), key);
    check_error(reader.get_double(key), key);
    check_error(reader.get_string(key), key);
    check_error(reader.get_object(key), key);
    const auto ids = quire::read_token_ids(reader, key);
    check_error(ids, key);
    if (ids.ok() && std::ranges::any_of(*ids, [](std::int32_t id) { return id < 0; })) std::abort();
    if (reader.contains(key) == entry.value().is_null()) std::abort();
    if (entry.value().is_object()) ask_for_fields(entry.value().get_object());
  }
  constexpr std::string_view kFields[] = {"prompt", "model"};
  (void)quire::check_fields(reader, kFields);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = quire::parse_json(text, "fuzz", kMaxDepth);
  if (!value.ok()) {
    if (!value.status().message().starts_with("fuzz: invalid JSON")) std::abort();
    return 0;
  }
  if (depth(*value) > kMaxDepth) std::abort();
  const auto again = quire::parse_json(quire::json::serialize(*value), "again", kMaxDepth);
  if (!again.ok() || !same(*value, *again)) std::abort();
  if (value->is_object()) ask_for_fields(value->get_object());
  return 0;
}
