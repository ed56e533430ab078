#include "apps/pooler_config.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/printable.h"

namespace quire {
namespace {

// Of a field that is not known here: null and false ask for nothing.
bool asks_for_nothing(const json::value& value) {
  return value.is_null() || (value.is_bool() && !value.get_bool());
}

}  // namespace

Status read_pooler_config(const std::string& flag, const std::string& text, EngineArgs& args) {
  if (text.empty() || text == "None" || text == "null") return {};
  QUIRE_ASSIGN_OR_RETURN(const auto value, parse_json(text, flag));
  if (!value.is_object()) {
    return Status::invalid_argument(
        fmt::format("{}: expected an object, found {}", flag, json_kind_name(value)),
        R"(write it like '{"pooling_type": "MEAN"}')");
  }
  const JsonReader fields(value.get_object(), flag, StatusCode::kInvalidArgument);
  for (const auto& [key, field] : fields.object()) {
    if (key == "pooling_type" || key == "seq_pooling_type") {
      QUIRE_ASSIGN_OR_RETURN(const auto name, fields.find_string(key));
      if (name) args.pooling_type = *name;
    } else if (key == "normalize" || key == "use_activation") {
      QUIRE_ASSIGN_OR_RETURN(const auto normalize, fields.find_bool(key));
      if (normalize) args.normalize_embeddings = normalize;
    } else if (!asks_for_nothing(field)) {
      return Status::unimplemented(
          fmt::format("{}: {}: Quire does not have this", flag, printable(key)),
          "leave it out; pooling_type and normalize are taken");
    }
  }
  return {};
}

}  // namespace quire
