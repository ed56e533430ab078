// A part of tokenizer.json as a list of steps, nested sequences flattened. Internal to
// tokenizer_json_pipeline.cpp and tokenizer_json_post.cpp.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace quire {

struct JsonStep {
  JsonStep(std::string step_type, JsonReader step_json)
      : type(std::move(step_type)), json(std::move(step_json)) {}

  std::string type;
  JsonReader json;
};

// The steps of `part` in order, those of a Sequence being under `list_key`; none if it is null.
Result<std::vector<JsonStep>> read_json_steps(const JsonReader& root, std::string_view part,
                                              std::string_view list_key);

// kUnimplemented: "where: what is not supported".
Status unsupported_json(const JsonReader& where, std::string_view what);
// "where: type T is not supported".
Status unsupported_json_type(const JsonStep& step);

}  // namespace quire
