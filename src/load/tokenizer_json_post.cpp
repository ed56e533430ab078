// The post-processor of tokenizer.json.
#include <limits>

#include <fmt/format.h>

#include "load/tokenizer_json_pipeline.h"
#include "load/tokenizer_json_steps.h"

namespace quire {

namespace {

Result<TokenId> token_id(const JsonReader& where, std::string_view key, const json::value& value) {
  const std::int64_t* id = value.if_int64();
  if (id == nullptr || *id < 0 || *id > std::numeric_limits<TokenId>::max()) {
    return where.type_error(key, "ids of at least 0");
  }
  return static_cast<TokenId>(*id);
}

// The ids of a special token of a template, by its entry in special_tokens.
Status append_template_token(const JsonReader& step, const JsonReader& item,
                             std::vector<TokenId>& out) {
  QUIRE_ASSIGN_OR_RETURN(const std::string name, item.get_string("id"));
  QUIRE_ASSIGN_OR_RETURN(const JsonReader tokens, step.get_object("special_tokens"));
  QUIRE_ASSIGN_OR_RETURN(const JsonReader token, tokens.get_object(name));
  const json::value* ids = token.find("ids");
  if (ids == nullptr || !ids->is_array()) return token.type_error("ids", "an array of ids");
  for (const json::value& value : ids->get_array()) {
    QUIRE_ASSIGN_OR_RETURN(const TokenId id, token_id(token, "ids", value));
    out.push_back(id);
  }
  return {};
}

Result<AddedEnds> read_template(const JsonReader& step) {
  const json::value* single = step.find("single");
  if (single == nullptr || !single->is_array()) return step.type_error("single", "an array");
  AddedEnds ends;
  bool seen_text = false;
  for (const json::value& value : single->get_array()) {
    if (!value.is_object()) return step.type_error("single", "an array of objects");
    const JsonReader item(value.get_object(), step.where());
    if (item.contains("Sequence")) {
      if (seen_text) return unsupported_json(step, "a template that has the text twice");
      seen_text = true;
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(const JsonReader special, item.get_object("SpecialToken"));
    QUIRE_RETURN_IF_ERROR(
        append_template_token(step, special, seen_text ? ends.after : ends.before));
  }
  if (!seen_text) return unsupported_json(step, "a template without the text");
  return ends;
}

// ["token", id] under `key`.
Result<TokenId> read_token_pair(const JsonReader& step, std::string_view key) {
  const json::value* pair = step.find(key);
  if (pair == nullptr || !pair->is_array() || pair->get_array().size() != 2) {
    return step.type_error(key, "a token and its id");
  }
  return token_id(step, key, pair->get_array()[1]);
}

}  // namespace

Result<AddedEnds> read_post_processor(const JsonReader& tokenizer_json) {
  QUIRE_ASSIGN_OR_RETURN(const auto steps,
                         read_json_steps(tokenizer_json, "post_processor", "processors"));
  AddedEnds all;
  for (const JsonStep& step : steps) {
    AddedEnds ends;
    if (step.type == "TemplateProcessing") {
      QUIRE_ASSIGN_OR_RETURN(ends, read_template(step.json));
    } else if (step.type == "RobertaProcessing" || step.type == "BertProcessing") {
      QUIRE_ASSIGN_OR_RETURN(const TokenId cls, read_token_pair(step.json, "cls"));
      QUIRE_ASSIGN_OR_RETURN(const TokenId sep, read_token_pair(step.json, "sep"));
      ends = {{cls}, {sep}};
    } else if (step.type != "ByteLevel") {  // which only trims offsets
      return unsupported_json_type(step);
    }
    all.before.insert(all.before.begin(), ends.before.begin(), ends.before.end());
    all.after.insert(all.after.end(), ends.after.begin(), ends.after.end());
  }
  return all;
}

}  // namespace quire
