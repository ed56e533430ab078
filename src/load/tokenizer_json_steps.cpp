#include "load/tokenizer_json_steps.h"

#include <fmt/format.h>

#include "base/printable.h"

namespace quire {

namespace {

Status append_steps(const JsonReader& part, std::string_view list_key,
                    std::vector<JsonStep>& steps) {
  QUIRE_ASSIGN_OR_RETURN(std::string type, part.get_string("type"));
  if (type != "Sequence") {
    steps.emplace_back(std::move(type), part);
    return {};
  }
  const json::value* list = part.find(list_key);
  if (list == nullptr || !list->is_array()) return part.type_error(list_key, "an array");
  for (const json::value& item : list->get_array()) {
    if (!item.is_object()) return part.type_error(list_key, "an array of objects");
    QUIRE_RETURN_IF_ERROR(
        append_steps(JsonReader(item.get_object(), part.where()), list_key, steps));
  }
  return {};
}

}  // namespace

Result<std::vector<JsonStep>> read_json_steps(const JsonReader& root, std::string_view part,
                                              std::string_view list_key) {
  std::vector<JsonStep> steps;
  if (root.contains(part)) {
    QUIRE_ASSIGN_OR_RETURN(const JsonReader object, root.get_object(part));
    QUIRE_RETURN_IF_ERROR(append_steps(object, list_key, steps));
  }
  return steps;
}

Status unsupported_json(const JsonReader& where, std::string_view what) {
  return Status::unimplemented(fmt::format("{}: {} is not supported", where.where(), what));
}

Status unsupported_json_type(const JsonStep& step) {
  return unsupported_json(step.json, fmt::format("type {}", printable(step.type)));
}

}  // namespace quire
