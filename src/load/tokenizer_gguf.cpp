#include "load/tokenizer_gguf.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.h"
#include "load/sentencepiece_model.h"
#include "load/space_steps.h"
#include "text/scanners.h"

namespace quire {

namespace {

Status bad(std::string_view where, std::string_view key, std::string what) {
  return Status::bad_model(fmt::format("{}: tokenizer.ggml.{}: {}", where, key, what));
}

Status unsupported(std::string_view where, std::string_view key, std::string_view value,
                   std::string_view supported) {
  return {
      StatusCode::kUnimplemented,
      fmt::format("{}: tokenizer.ggml.{}: \"{}\" is not supported", where, key, printable(value)),
      fmt::format("supported: {}", supported)};
}

bool ends_a_turn(std::string_view token) {
  constexpr std::string_view kNames[] = {"<|im_end|>", "<|eot_id|>",    "<end_of_turn>",
                                         "<|end|>",    "<|endoftext|>", "<turn|>"};
  return std::ranges::find(kNames, token) != std::end(kNames);
}

Status read_kinds(const GgufTokenizerKeys& keys, std::string_view where, VocabData& data) {
  if (keys.token_type.empty()) {
    data.kinds.assign(data.tokens.size(), TokenKind::kNormal);
    return {};
  }
  if (keys.token_type.size() != data.tokens.size()) {
    return bad(where, "token_type",
               fmt::format("{} types for {} tokens", keys.token_type.size(), data.tokens.size()));
  }
  for (std::size_t i = 0; i < keys.token_type.size(); ++i) {
    const auto kind = kind_of_piece(keys.token_type[i]);
    if (!kind) {
      return bad(where, "token_type",
                 fmt::format("token {} has the unknown type {}", i, keys.token_type[i]));
    }
    data.kinds.push_back(*kind);
    const bool special = *kind == TokenKind::kControl || *kind == TokenKind::kUnknown;
    if ((special || *kind == TokenKind::kUserDefined) && !data.tokens[i].empty()) {
      data.added_tokens.push_back(
          {.content = data.tokens[i], .id = static_cast<TokenId>(i), .special = special});
    }
  }
  return {};
}

Status read_merges(const GgufTokenizerKeys& keys, std::string_view where, VocabData& data) {
  if (keys.merges.empty())
    return bad(where, "merges", fmt::format("missing, but a {} tokenizer needs them", keys.model));
  data.merges.reserve(keys.merges.size());
  for (std::size_t i = 0; i < keys.merges.size(); ++i) {
    const std::string& merge = keys.merges[i];
    // A part is never empty, but may start with a space in a vocabulary that is not byte-level.
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string::npos || space + 1 == merge.size()) {
      return bad(where, "merges", fmt::format("entry {} is not two parts and a space", i));
    }
    data.merges.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  return {};
}

Result<std::optional<TokenId>> token_id_of_key(const std::optional<std::int64_t>& id,
                                               std::string_view where, std::string_view key,
                                               std::size_t vocab_size) {
  if (!id) return std::optional<TokenId>();
  if (*id < 0 || std::cmp_greater_equal(*id, vocab_size)) {
    return bad(where, key,
               fmt::format("{} is outside the vocabulary of {} tokens", *id, vocab_size));
  }
  return std::optional<TokenId>(static_cast<TokenId>(*id));
}

void add_eos(VocabData& data, std::optional<TokenId> id) {
  if (id && std::ranges::find(data.eos_ids, *id) == data.eos_ids.end()) data.eos_ids.push_back(*id);
}

Status read_ids(const GgufTokenizerKeys& keys, std::string_view where, VocabData& data) {
  const std::size_t size = data.tokens.size();
  for (const auto& [key, id] : keys.token_ids) {
    QUIRE_RETURN_IF_ERROR(token_id_of_key(id, where, printable(key), size).status());
  }
  QUIRE_ASSIGN_OR_RETURN(data.bos_id, token_id_of_key(keys.bos, where, "bos_token_id", size));
  QUIRE_ASSIGN_OR_RETURN(const auto eos, token_id_of_key(keys.eos, where, "eos_token_id", size));
  QUIRE_ASSIGN_OR_RETURN(const auto eot, token_id_of_key(keys.eot, where, "eot_token_id", size));
  add_eos(data, eos);
  add_eos(data, eot);
  for (std::size_t i = 0; i < size; ++i) {
    if (data.kinds[i] == TokenKind::kControl && ends_a_turn(data.tokens[i])) {
      add_eos(data, static_cast<TokenId>(i));
    }
  }
  return {};
}

// The cased letters, as DeepSeek LLM's tokenizer lists them.
constexpr std::string_view kDeepseekLlmLetters =
    "[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-"
    "\u02AF\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1"
    "\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-"
    "\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18"
    "-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u03CE\u1F80-\u1FB4"
    "\u1FB6-\u1FBC\u03B9\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u0390\u1FD6-\u038A\u1FE0-\u1FEC\u1FF2"
    "-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u03A9\u2128K-\u212D"
    "\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4"
    "\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E"
    "\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F"
    "\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2"
    "\U000118A0-\U000118DF\U0001E900-\U0001E943]";
constexpr std::string_view kCjk = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+";
constexpr std::string_view kLines = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kAnyCase = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
constexpr std::string_view kUpper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
constexpr std::string_view kLower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";

// In the place of a pattern: each numeric character alone.
constexpr std::string_view kDigits = "Digits";

// What one value of `pre` stands for.
struct PreTokenizerName {
  std::vector<std::string_view> names;
  std::vector<std::string> regexes;  // each cuts what those before it have left
  bool ignore_merges = false;
  bool add_bos = false;  // where the key is absent
};

// The values that llama.cpp's converter writes, with the patterns of the models' own
// tokenizer.json.
std::vector<PreTokenizerName> pre_tokenizer_names() {
  const std::string gpt2(gpt2_regex());
  const auto cl100k = [](std::string_view numbers) {
    return fmt::format(R"({}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*{})",
                       kAnyCase, numbers, kLines);
  };
  const auto cased = [](std::string_view contractions, std::string_view numbers) {
    return fmt::format(R"([^\r\n\p{{L}}\p{{N}}]?{0}*{1}+{2}|[^\r\n\p{{L}}\p{{N}}]?{0}+{1}*{2}|{3})"
                       R"(| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{4})",
                       kUpper, kLower, contractions, numbers, kLines);
  };
  const std::string digits = R"(\p{N}{1,3})";
  return {
      {{"gpt-2", "phi-2", "olmo", "mpt", "exaone4"}, {gpt2}},
      {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
       {std::string(kDigits), gpt2}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3"}, {cl100k(digits)}, true, true},
      {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {cl100k(digits)}},
      {{"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"}, {cl100k(R"(\p{N})")}},
      {{"gpt-4o", "llama4", "minimax-m2"}, {cased(fmt::format("{}?", kAnyCase), digits)}},
      {{"seed-coder"},
       {fmt::format(R"({}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+{})",
                    kAnyCase, kLines)}},
      {{"bloom"}, {" ?[^(\\s|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)]+"}},
      {{"tekken"}, {cased("", R"(\p{N})")}, true, true},
      {{"falcon"}, {R"([\p{P}\$\+<=>\^~\|`]+)", gpt2, "[0-9][0-9][0-9]"}},
      {{"deepseek-llm"},
       {R"([\r\n])", R"(\s?)" + std::string(kDeepseekLlmLetters) + "+",
        "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+", R"(\s+$)",
        std::string(kCjk), R"(\p{N}+)"}},
      {{"deepseek-coder"},
       {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", std::string(kCjk), std::string(kDigits)}},
      {{"deepseek-v3", "hunyuan-dense"},
       {digits, "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
        R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
        R"(| ?[\p{P}\p{S}]+[\r\n]*)" +
            std::string(kLines)}},
  };
}

Status read_pre_tokenizer_name(const GgufTokenizerKeys& keys, std::string_view where,
                               VocabData& data) {
  std::vector<std::string_view> supported;
  for (PreTokenizerName& known : pre_tokenizer_names()) {
    if (std::ranges::find(known.names, keys.pre) == known.names.end()) {
      supported.insert(supported.end(), known.names.begin(), known.names.end());
      continue;
    }
    for (std::string& regex : known.regexes) {
      if (regex == kDigits) {
        data.pre_tokenizers.push_back({.kind = PreTokenizerStep::Kind::kDigits});
      } else {
        data.pre_tokenizers.push_back({.pattern = {std::move(regex), /*is_regex=*/true}});
      }
    }
    data.ignore_merges = known.ignore_merges;
    if (keys.add_bos.value_or(known.add_bos) && data.bos_id) data.prefix_ids = {*data.bos_id};
    return {};
  }
  return unsupported(where, "pre", keys.pre, fmt::format("{}", fmt::join(supported, ", ")));
}

}  // namespace

Result<VocabData> read_tokenizer_gguf(GgufTokenizerKeys keys, std::string_view where) {
  VocabData data;
  if (keys.tokens.empty()) return bad(where, "tokens", "missing or empty");
  data.tokens = std::move(keys.tokens);
  QUIRE_RETURN_IF_ERROR(read_kinds(keys, where, data));
  QUIRE_RETURN_IF_ERROR(read_ids(keys, where, data));

  if (keys.model == "gpt2") {
    data.style = BpeStyle::kByteLevel;
    QUIRE_RETURN_IF_ERROR(read_pre_tokenizer_name(keys, where, data));
    QUIRE_RETURN_IF_ERROR(read_merges(keys, where, data));
    data.decoders.push_back({.kind = DecoderStep::Kind::kByteLevel});
  } else if (keys.model == "llama") {
    if (keys.scores.size() != data.tokens.size()) {
      return bad(where, "scores",
                 fmt::format("{} scores for {} tokens", keys.scores.size(), data.tokens.size()));
    }
    data.style = BpeStyle::kCharacters;
    data.scores = std::move(keys.scores);
    append_space_steps(keys.add_space_prefix.value_or(true), data);
    data.byte_fallback = true;
    QUIRE_ASSIGN_OR_RETURN(
        data.unk_id, token_id_of_key(keys.unk, where, "unknown_token_id", data.tokens.size()));
    if (keys.add_bos.value_or(true) && data.bos_id) data.prefix_ids = {*data.bos_id};
  } else if (keys.model == "gemma4") {
    data.style = BpeStyle::kCharacters;
    QUIRE_RETURN_IF_ERROR(read_merges(keys, where, data));
    append_space_steps(keys.add_space_prefix.value_or(false), data);
    data.byte_fallback = true;
    QUIRE_ASSIGN_OR_RETURN(
        data.unk_id, token_id_of_key(keys.unk, where, "unknown_token_id", data.tokens.size()));
    if (data.bos_id) data.prefix_ids = {*data.bos_id};  // whatever the file says, as llama.cpp
  } else {
    return unsupported(where, "model", keys.model, "gpt2, llama, gemma4");
  }
  if (keys.add_eos.value_or(false) && !data.eos_ids.empty()) {
    data.suffix_ids = {data.eos_ids.front()};
  }
  return data;
}

}  // namespace quire
