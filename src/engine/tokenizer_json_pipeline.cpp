#include "engine/tokenizer_json_pipeline.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace quire {

namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581

// One step of a part, with its type.
struct Step {
  Step(std::string step_type, JsonReader step_json)
      : type(std::move(step_type)), json(std::move(step_json)) {}

  std::string type;
  JsonReader json;
};

Status unsupported(const JsonReader& where, std::string_view what) {
  return Status::unimplemented(fmt::format("{}: {} is not supported", where.where(), what));
}

Status unsupported_type(const Step& step) {
  return unsupported(step.json, fmt::format("type {}", step.type));
}

Status append_steps(const JsonReader& part, std::string_view list_key, std::vector<Step>& steps) {
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

// The steps of a part in order, nested sequences flattened; none if the part is null.
Result<std::vector<Step>> read_steps(const JsonReader& root, std::string_view part,
                                     std::string_view list_key) {
  std::vector<Step> steps;
  if (root.contains(part)) {
    QUIRE_ASSIGN_OR_RETURN(const JsonReader object, root.get_object(part));
    QUIRE_RETURN_IF_ERROR(append_steps(object, list_key, steps));
  }
  return steps;
}

Result<bool> bool_or(const JsonReader& json, std::string_view key, bool fallback) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, json.find_bool(key));
  return value.value_or(fallback);
}

// A Replace step that turns exactly `from` into `to`.
Result<bool> replaces(const JsonReader& step, std::string_view from, std::string_view to) {
  QUIRE_ASSIGN_OR_RETURN(const JsonReader pattern, step.get_object("pattern"));
  QUIRE_ASSIGN_OR_RETURN(const auto text, pattern.find_string("String"));
  QUIRE_ASSIGN_OR_RETURN(const std::string content, step.get_string("content"));
  return text == from && content == to;
}

Status read_normalizer(const JsonReader& root, VocabData& data) {
  QUIRE_ASSIGN_OR_RETURN(const auto steps, read_steps(root, "normalizer", "normalizers"));
  for (const Step& step : steps) {
    if (step.type == "Prepend") {
      QUIRE_ASSIGN_OR_RETURN(const std::string prefix, step.json.get_string("prepend"));
      if (prefix != kSpaceSymbol || data.space_prefix != SpacePrefix::kNever) {
        return unsupported(step.json, "a Prepend of anything but one U+2581");
      }
      data.space_prefix = SpacePrefix::kAlways;
    } else if (step.type == "Replace") {
      QUIRE_ASSIGN_OR_RETURN(const bool escapes, replaces(step.json, " ", kSpaceSymbol));
      if (!escapes) return unsupported(step.json, "a Replace of anything but ' ' by U+2581");
      data.escape_spaces = true;
    } else {
      return unsupported_type(step);
    }
  }
  if (data.space_prefix != SpacePrefix::kNever && !data.escape_spaces) {
    return unsupported(root, "normalizer: a Prepend without a Replace of spaces");
  }
  return {};
}

// Metaspace's prepend_scheme, or the boolean that older files have in its place.
Result<SpacePrefix> read_prepend_scheme(const JsonReader& metaspace) {
  QUIRE_ASSIGN_OR_RETURN(const auto scheme, metaspace.find_string("prepend_scheme"));
  if (!scheme) {
    QUIRE_ASSIGN_OR_RETURN(const bool prefix, bool_or(metaspace, "add_prefix_space", true));
    return prefix ? SpacePrefix::kAlways : SpacePrefix::kNever;
  }
  if (*scheme == "always") return SpacePrefix::kAlways;
  if (*scheme == "first") return SpacePrefix::kFirst;
  if (*scheme == "never") return SpacePrefix::kNever;
  return unsupported(metaspace, fmt::format("prepend_scheme {}", *scheme));
}

Status check_metaspace_symbol(const JsonReader& metaspace) {
  QUIRE_ASSIGN_OR_RETURN(const std::string symbol, metaspace.get_string("replacement"));
  if (symbol != kSpaceSymbol) return unsupported(metaspace, "a replacement other than U+2581");
  return {};
}

Status read_metaspace(const JsonReader& step, VocabData& data) {
  if (data.space_prefix != SpacePrefix::kNever) {
    return unsupported(step, "Metaspace after a Prepend normalizer");
  }
  QUIRE_RETURN_IF_ERROR(check_metaspace_symbol(step));
  QUIRE_ASSIGN_OR_RETURN(data.space_prefix, read_prepend_scheme(step));
  QUIRE_ASSIGN_OR_RETURN(const bool split, bool_or(step, "split", true));
  data.escape_spaces = true;
  data.prefix_unless_present = true;
  data.pre_tokenizer = split ? PreTokenizer::kMetaspace : PreTokenizer::kNone;
  return {};
}

// ByteLevel, alone or after Digits.
Status read_byte_level(const JsonReader& step, bool after_digits, VocabData& data) {
  QUIRE_ASSIGN_OR_RETURN(const bool prefix, bool_or(step, "add_prefix_space", true));
  if (prefix) return unsupported(step, "ByteLevel with add_prefix_space");
  QUIRE_ASSIGN_OR_RETURN(const bool use_regex, bool_or(step, "use_regex", true));
  if (after_digits && !use_regex) return unsupported(step, "Digits without ByteLevel's use_regex");
  if (data.escape_spaces) return unsupported(step, "ByteLevel after a Replace normalizer");
  data.style = BpeStyle::kByteLevel;
  data.pre_tokenizer = after_digits ? PreTokenizer::kSmolLm
                       : use_regex  ? PreTokenizer::kGpt2
                                    : PreTokenizer::kNone;
  return {};
}

Status read_pre_tokenizer(const JsonReader& root, VocabData& data) {
  QUIRE_ASSIGN_OR_RETURN(const auto steps, read_steps(root, "pre_tokenizer", "pretokenizers"));
  data.style = BpeStyle::kSentencePiece;
  std::string before;
  for (const Step& step : steps) {
    if (step.type == "Digits" && before.empty()) {
      QUIRE_ASSIGN_OR_RETURN(const bool individual, bool_or(step.json, "individual_digits", false));
      if (!individual) return unsupported(step.json, "Digits without individual_digits");
    } else if (step.type == "ByteLevel" && (before.empty() || before == "Digits")) {
      QUIRE_RETURN_IF_ERROR(read_byte_level(step.json, before == "Digits", data));
    } else if (step.type == "Metaspace" && before.empty()) {
      QUIRE_RETURN_IF_ERROR(read_metaspace(step.json, data));
    } else if (before.empty()) {
      return unsupported_type(step);
    } else {
      return unsupported(step.json, fmt::format("type {} after {}", step.type, before));
    }
    before = step.type;
  }
  if (before == "Digits") return unsupported(root, "pre_tokenizer: Digits without ByteLevel");
  return {};
}

Status read_strip(const JsonReader& step, bool fused, VocabData& data) {
  QUIRE_ASSIGN_OR_RETURN(const std::string content, step.get_string("content"));
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t start, step.get_int("start"));
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t stop, step.get_int("stop"));
  if (!fused || content != " " || start < 0 || start > 1 || stop != 0) {
    return unsupported(step, "a Strip of anything but one leading space of the fused text");
  }
  if (start == 1) data.leading_space = LeadingSpace::kStripOne;
  return {};
}

// Byte tokens are ordinary text to a tokenizer whose decoder does not turn them into bytes.
Status read_decoder(const JsonReader& root, VocabData& data, bool& decodes_bytes) {
  QUIRE_ASSIGN_OR_RETURN(const auto steps, read_steps(root, "decoder", "decoders"));
  bool decodes_spaces = false;
  bool fused = false;
  for (const Step& step : steps) {
    if (step.type == "ByteLevel" && data.style == BpeStyle::kByteLevel && steps.size() == 1) {
      return {};
    }
    if (data.style == BpeStyle::kByteLevel) return unsupported_type(step);
    if (step.type == "Replace") {
      QUIRE_ASSIGN_OR_RETURN(decodes_spaces, replaces(step.json, kSpaceSymbol, " "));
      if (!decodes_spaces) return unsupported(step.json, "a Replace of anything but U+2581 by ' '");
    } else if (step.type == "Metaspace") {
      QUIRE_RETURN_IF_ERROR(check_metaspace_symbol(step.json));
      QUIRE_ASSIGN_OR_RETURN(const SpacePrefix scheme, read_prepend_scheme(step.json));
      decodes_spaces = true;
      if (scheme != SpacePrefix::kNever) data.leading_space = LeadingSpace::kStripFirstToken;
    } else if (step.type == "ByteFallback") {
      decodes_bytes = true;
    } else if (step.type == "Fuse") {
      fused = true;
    } else if (step.type == "Strip") {
      QUIRE_RETURN_IF_ERROR(read_strip(step.json, fused, data));
    } else {
      return unsupported_type(step);
    }
  }
  if (!decodes_spaces) {
    return unsupported(root, data.style == BpeStyle::kByteLevel
                                 ? "decoder: none for a byte-level tokenizer"
                                 : "decoder: one that does not restore spaces");
  }
  return {};
}

// The one special token of an item of a template, by its entry in special_tokens.
Result<TokenId> template_token(const JsonReader& step, const JsonReader& item) {
  QUIRE_ASSIGN_OR_RETURN(const std::string name, item.get_string("id"));
  QUIRE_ASSIGN_OR_RETURN(const JsonReader tokens, step.get_object("special_tokens"));
  QUIRE_ASSIGN_OR_RETURN(const JsonReader token, tokens.get_object(name));
  const json::value* ids = token.find("ids");
  if (ids == nullptr || !ids->is_array() || ids->get_array().size() != 1) {
    return token.type_error("ids", "an array of one id");
  }
  const std::int64_t* id = ids->get_array()[0].if_int64();
  if (id == nullptr || *id < 0 || *id > std::numeric_limits<TokenId>::max()) {
    return token.type_error("ids", "an array of one id");
  }
  return static_cast<TokenId>(*id);
}

Status read_template(const JsonReader& step, AddedEnds& ends) {
  const json::value* single = step.find("single");
  if (single == nullptr || !single->is_array()) return step.type_error("single", "an array");
  bool seen_text = false;
  for (const json::value& value : single->get_array()) {
    if (!value.is_object()) return step.type_error("single", "an array of objects");
    const JsonReader item(value.get_object(), step.where());
    if (item.contains("Sequence")) {
      seen_text = true;
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(const JsonReader special, item.get_object("SpecialToken"));
    std::optional<TokenId>& end = seen_text ? ends.after : ends.before;
    if (end) return unsupported(step, "more than one token on one side of the text");
    QUIRE_ASSIGN_OR_RETURN(end, template_token(step, special));
  }
  return {};
}

}  // namespace

Status read_tokenizer_pipeline(const JsonReader& tokenizer_json, VocabData& data) {
  QUIRE_RETURN_IF_ERROR(read_normalizer(tokenizer_json, data));
  QUIRE_RETURN_IF_ERROR(read_pre_tokenizer(tokenizer_json, data));
  bool decodes_bytes = false;
  QUIRE_RETURN_IF_ERROR(read_decoder(tokenizer_json, data, decodes_bytes));
  QUIRE_ASSIGN_OR_RETURN(const JsonReader model, tokenizer_json.get_object("model"));
  QUIRE_ASSIGN_OR_RETURN(data.byte_fallback, bool_or(model, "byte_fallback", false));
  if (data.byte_fallback != decodes_bytes) {
    return unsupported(tokenizer_json,
                       "byte_fallback in one of model and decoder but not in the other");
  }
  return {};
}

Result<AddedEnds> read_post_processor(const JsonReader& tokenizer_json) {
  QUIRE_ASSIGN_OR_RETURN(const auto steps,
                         read_steps(tokenizer_json, "post_processor", "processors"));
  AddedEnds ends;
  for (const Step& step : steps) {
    if (step.type == "TemplateProcessing") {
      QUIRE_RETURN_IF_ERROR(read_template(step.json, ends));
    } else if (step.type != "ByteLevel") {  // which only trims offsets
      return unsupported_type(step);
    }
  }
  return ends;
}

}  // namespace quire
