#include "text/jinja/from_json.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/utf8.h"

namespace quire::jinja {
namespace {

constexpr std::array<std::string_view, 8> kRoles = {"system", "developer", "user",    "assistant",
                                                    "tool",   "function",  "ipython", "model"};

class Converter {
 public:
  explicit Converter(Budget& budget) : budget_(budget) {}

  Result<Value> convert(const json::value& value, int depth) {
    QUIRE_RETURN_IF_ERROR(check_value_depth(depth));
    switch (value.kind()) {
      case json::kind::null:
        return Value::none();
      case json::kind::bool_:
        return Value::boolean(value.get_bool());
      case json::kind::int64:
        return Value::integer(value.get_int64());
      case json::kind::uint64:
        return Value::integer(static_cast<Int>(value.get_uint64()));
      case json::kind::double_:
        return Value::number(value.get_double());
      case json::kind::string:
        return text(value.get_string());
      case json::kind::array: {
        std::vector<Value> items;
        items.reserve(value.get_array().size());
        for (const json::value& item : value.get_array()) {
          QUIRE_ASSIGN_OR_RETURN(Value converted, convert(item, depth + 1));
          items.push_back(std::move(converted));
        }
        return make_sequence(Kind::kList, std::move(items), budget_);
      }
      case json::kind::object:
        return object(value.get_object(), depth, false);
    }
    return Status::internal("unknown kind of JSON value");
  }

  Result<Value> object(const json::object& object, int depth, bool is_message) {
    std::vector<std::pair<Value, Value>> entries;
    entries.reserve(object.size());
    for (const auto& entry : object) {
      QUIRE_ASSIGN_OR_RETURN(Value key, text(entry.key()));
      QUIRE_ASSIGN_OR_RETURN(Value value, convert(entry.value(), depth + 1));
      if (is_message && entry.key() == "role" && value.is_string() &&
          std::find(kRoles.begin(), kRoles.end(), value.view()) != kRoles.end()) {
        value = Value::string(std::string(value.view()), true);
      }
      entries.emplace_back(std::move(key), std::move(value));
    }
    return make_dict(std::move(entries), budget_);
  }

 private:
  Result<Value> text(std::string_view bytes) {
    if (!is_valid_utf8(bytes)) return Status::invalid_argument("text that is not valid UTF-8");
    QUIRE_RETURN_IF_ERROR(budget_.bytes(kObjectBytes + bytes.size()));
    return Value::string(std::string(bytes), false);
  }

  Budget& budget_;
};

}  // namespace

Result<Value> from_json(const json::value& value, Budget& budget) {
  return Converter(budget).convert(value, 1);
}

Result<Value> messages_from_json(const json::array& messages, Budget& budget) {
  Converter converter(budget);
  std::vector<Value> items;
  items.reserve(messages.size());
  for (const json::value& message : messages) {
    QUIRE_ASSIGN_OR_RETURN(Value item, message.is_object()
                                           ? converter.object(message.get_object(), 2, true)
                                           : converter.convert(message, 2));
    items.push_back(std::move(item));
  }
  return make_sequence(Kind::kList, std::move(items), budget);
}

}  // namespace quire::jinja
