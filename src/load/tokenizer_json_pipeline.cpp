#include "load/tokenizer_json_pipeline.h"

#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "load/tokenizer_json_steps.h"
#include "text/scanners.h"
#include "text/utf8.h"

namespace quire {

namespace {

Result<bool> bool_or(const JsonReader& json, std::string_view key, bool fallback) {
  QUIRE_ASSIGN_OR_RETURN(const auto value, json.find_bool(key));
  return value.value_or(fallback);
}

// {"String": ...} or {"Regex": ...}.
Result<TextPattern> read_pattern(const JsonReader& step) {
  QUIRE_ASSIGN_OR_RETURN(const JsonReader pattern, step.get_object("pattern"));
  QUIRE_ASSIGN_OR_RETURN(auto text, pattern.find_string("String"));
  if (text) return TextPattern{std::move(*text), /*is_regex=*/false};
  QUIRE_ASSIGN_OR_RETURN(std::string regex, pattern.get_string("Regex"));
  return TextPattern{std::move(regex), /*is_regex=*/true};
}

Result<std::string> read_character(const JsonReader& step, std::string_view key) {
  Result<std::string> text = step.get_string(key);
  if (text.ok() && (text->empty() || symbol_size(*text, 0) != text->size())) {
    return step.type_error(key, "a string of one character");
  }
  return text;
}

Result<SplitBehavior> read_behavior(const JsonReader& step) {
  QUIRE_ASSIGN_OR_RETURN(const auto found, step.find_string("behavior"));
  const std::string behavior = found.value_or("Isolated");
  if (behavior == "Removed") return SplitBehavior::kRemoved;
  if (behavior == "Isolated") return SplitBehavior::kIsolated;
  if (behavior == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (behavior == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (behavior == "Contiguous") return SplitBehavior::kContiguous;
  return unsupported_json(step, fmt::format("behavior {}", printable(behavior)));
}

// Metaspace's prepend_scheme, or the boolean that older files have in its place.
Result<PreTokenizerStep::Prefix> read_prepend_scheme(const JsonReader& metaspace) {
  using Prefix = PreTokenizerStep::Prefix;
  QUIRE_ASSIGN_OR_RETURN(const auto scheme, metaspace.find_string("prepend_scheme"));
  if (!scheme) {
    QUIRE_ASSIGN_OR_RETURN(const bool prefix, bool_or(metaspace, "add_prefix_space", true));
    return prefix ? Prefix::kAlways : Prefix::kNever;
  }
  if (*scheme == "always") return Prefix::kAlways;
  if (*scheme == "first") return Prefix::kFirst;
  if (*scheme == "never") return Prefix::kNever;
  return unsupported_json(metaspace, fmt::format("prepend_scheme {}", printable(*scheme)));
}

Result<NormalizerStep> read_normalizer_step(const JsonStep& step) {
  using Kind = NormalizerStep::Kind;
  constexpr std::pair<std::string_view, Kind> kPlain[] = {
      {"NFC", Kind::kNfc},
      {"NFD", Kind::kNfd},
      {"NFKC", Kind::kNfkc},
      {"NFKD", Kind::kNfkd},
      {"Lowercase", Kind::kLowercase},
      {"StripAccents", Kind::kStripAccents},
      {"ByteLevel", Kind::kByteSymbols},
  };
  NormalizerStep out;
  for (const auto& [type, kind] : kPlain) {
    if (step.type != type) continue;
    out.kind = kind;
    return out;
  }
  if (step.type == "Strip") {
    out.kind = Kind::kStrip;
    QUIRE_ASSIGN_OR_RETURN(out.left, bool_or(step.json, "strip_left", true));
    QUIRE_ASSIGN_OR_RETURN(out.right, bool_or(step.json, "strip_right", true));
  } else if (step.type == "Replace") {
    out.kind = Kind::kReplace;
    QUIRE_ASSIGN_OR_RETURN(out.pattern, read_pattern(step.json));
    QUIRE_ASSIGN_OR_RETURN(out.content, step.json.get_string("content"));
  } else if (step.type == "Prepend") {
    out.kind = Kind::kPrepend;
    QUIRE_ASSIGN_OR_RETURN(out.content, step.json.get_string("prepend"));
  } else {
    return unsupported_json_type(step);
  }
  return out;
}

// ByteLevel: the last step leaves words as bytes, which is what a byte-level vocabulary needs; one
// before others writes them in the alphabet, because those others see it.
Status append_byte_level(const JsonReader& step, bool as_symbols, VocabData& data) {
  QUIRE_ASSIGN_OR_RETURN(const bool prefix, bool_or(step, "add_prefix_space", true));
  QUIRE_ASSIGN_OR_RETURN(const bool use_regex, bool_or(step, "use_regex", true));
  if (prefix) data.pre_tokenizers.push_back({.kind = PreTokenizerStep::Kind::kPrefixSpace});
  if (use_regex) {
    data.pre_tokenizers.push_back({.pattern = {std::string(gpt2_regex()), /*is_regex=*/true}});
  }
  if (as_symbols) {
    data.pre_tokenizers.push_back({.kind = PreTokenizerStep::Kind::kByteSymbols});
  } else {
    data.style = BpeStyle::kByteLevel;
  }
  return {};
}

Result<PreTokenizerStep> read_pre_tokenizer_step(const JsonStep& step) {
  using Kind = PreTokenizerStep::Kind;
  PreTokenizerStep out;
  if (step.type == "Split") {
    QUIRE_ASSIGN_OR_RETURN(out.pattern, read_pattern(step.json));
    QUIRE_ASSIGN_OR_RETURN(out.behavior, read_behavior(step.json));
    QUIRE_ASSIGN_OR_RETURN(out.invert, bool_or(step.json, "invert", false));
  } else if (step.type == "Digits") {
    out.kind = Kind::kDigits;
    QUIRE_ASSIGN_OR_RETURN(const bool individual, bool_or(step.json, "individual_digits", false));
    out.behavior = individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  } else if (step.type == "Punctuation") {
    out.kind = Kind::kPunctuation;
    QUIRE_ASSIGN_OR_RETURN(out.behavior, read_behavior(step.json));
  } else if (step.type == "Whitespace") {
    out.kind = Kind::kWhitespace;
  } else if (step.type == "WhitespaceSplit") {
    out.kind = Kind::kWhitespaceSplit;
  } else if (step.type == "CharDelimiterSplit") {
    QUIRE_ASSIGN_OR_RETURN(out.pattern.text, read_character(step.json, "delimiter"));
    out.behavior = SplitBehavior::kRemoved;
  } else if (step.type == "Metaspace") {
    out.kind = Kind::kMetaspace;
    QUIRE_ASSIGN_OR_RETURN(out.content, read_character(step.json, "replacement"));
    QUIRE_ASSIGN_OR_RETURN(out.prefix, read_prepend_scheme(step.json));
    QUIRE_ASSIGN_OR_RETURN(out.split, bool_or(step.json, "split", true));
  } else {
    return unsupported_json_type(step);
  }
  return out;
}

Status read_pre_tokenizer(const JsonReader& root, VocabData& data) {
  QUIRE_ASSIGN_OR_RETURN(const auto steps, read_json_steps(root, "pre_tokenizer", "pretokenizers"));
  data.style = BpeStyle::kCharacters;
  for (const JsonStep& step : steps) {
    if (step.type == "BertPreTokenizer") {
      data.pre_tokenizers.push_back({.kind = PreTokenizerStep::Kind::kWhitespaceSplit});
      data.pre_tokenizers.push_back({.kind = PreTokenizerStep::Kind::kPunctuation});
      continue;
    }
    if (step.type == "ByteLevel") {
      const bool as_symbols =
          &step != &steps.back() || data.byte_fallback || data.model != WordModel::kBpe;
      QUIRE_RETURN_IF_ERROR(append_byte_level(step.json, as_symbols, data));
      continue;
    }
    QUIRE_ASSIGN_OR_RETURN(PreTokenizerStep out, read_pre_tokenizer_step(step));
    data.pre_tokenizers.push_back(std::move(out));
  }
  return {};
}

Result<std::uint32_t> read_count(const JsonReader& step, std::string_view key) {
  QUIRE_ASSIGN_OR_RETURN(const std::int64_t count, step.get_int(key));
  if (count < 0 || count > std::numeric_limits<std::uint32_t>::max()) {
    return step.type_error(key, "a count");
  }
  return static_cast<std::uint32_t>(count);
}

Result<DecoderStep> read_decoder_step(const JsonStep& step) {
  using Kind = DecoderStep::Kind;
  DecoderStep out;
  if (step.type == "ByteLevel") {
    out.kind = Kind::kByteLevel;
  } else if (step.type == "ByteFallback") {
    out.kind = Kind::kByteFallback;
  } else if (step.type == "Fuse") {
    out.kind = Kind::kFuse;
  } else if (step.type == "Replace") {
    out.kind = Kind::kReplace;
    QUIRE_ASSIGN_OR_RETURN(out.pattern, read_pattern(step.json));
    QUIRE_ASSIGN_OR_RETURN(out.content, step.json.get_string("content"));
  } else if (step.type == "Metaspace") {
    out.kind = Kind::kMetaspace;
    QUIRE_ASSIGN_OR_RETURN(out.content, read_character(step.json, "replacement"));
    QUIRE_ASSIGN_OR_RETURN(const auto scheme, read_prepend_scheme(step.json));
    out.prefixed = scheme != PreTokenizerStep::Prefix::kNever;
  } else if (step.type == "WordPiece") {
    out.kind = Kind::kWordPiece;
    QUIRE_ASSIGN_OR_RETURN(out.content, step.json.get_string("prefix"));
    QUIRE_ASSIGN_OR_RETURN(out.cleanup, bool_or(step.json, "cleanup", true));
  } else if (step.type == "Strip") {
    out.kind = Kind::kStrip;
    QUIRE_ASSIGN_OR_RETURN(out.content, read_character(step.json, "content"));
    QUIRE_ASSIGN_OR_RETURN(out.start, read_count(step.json, "start"));
    QUIRE_ASSIGN_OR_RETURN(out.stop, read_count(step.json, "stop"));
  } else {
    return unsupported_json_type(step);
  }
  return out;
}

}  // namespace

Status read_tokenizer_pipeline(const JsonReader& tokenizer_json, VocabData& data) {
  QUIRE_ASSIGN_OR_RETURN(const JsonReader model, tokenizer_json.get_object("model"));
  QUIRE_ASSIGN_OR_RETURN(data.byte_fallback, bool_or(model, "byte_fallback", false));

  QUIRE_ASSIGN_OR_RETURN(const auto normalizers,
                         read_json_steps(tokenizer_json, "normalizer", "normalizers"));
  for (const JsonStep& step : normalizers) {
    QUIRE_ASSIGN_OR_RETURN(NormalizerStep out, read_normalizer_step(step));
    data.normalizers.push_back(std::move(out));
  }
  QUIRE_RETURN_IF_ERROR(read_pre_tokenizer(tokenizer_json, data));

  QUIRE_ASSIGN_OR_RETURN(const auto decoders,
                         read_json_steps(tokenizer_json, "decoder", "decoders"));
  if (!tokenizer_json.contains("decoder")) {
    return unsupported_json(tokenizer_json, "decoder: none (which puts a space between tokens)");
  }
  for (const JsonStep& step : decoders) {
    QUIRE_ASSIGN_OR_RETURN(DecoderStep out, read_decoder_step(step));
    data.decoders.push_back(std::move(out));
  }
  return {};
}

}  // namespace quire
