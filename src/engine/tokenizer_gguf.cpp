#include "engine/tokenizer_gguf.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace quire {

namespace {

Status bad(std::string_view where, std::string_view key, std::string what) {
  return Status::bad_model(fmt::format("{}: tokenizer.ggml.{}: {}", where, key, what));
}

Status unsupported(std::string_view where, std::string_view key, std::string_view value,
                   std::string_view supported) {
  return {StatusCode::kUnimplemented,
          fmt::format("{}: tokenizer.ggml.{}: \"{}\" is not supported", where, key, value),
          fmt::format("supported: {}", supported)};
}

// The values of `tokenizer.ggml.token_type`.
std::optional<TokenKind> kind_of_type(std::int32_t type) {
  switch (type) {
    case 1:
      return TokenKind::kNormal;
    case 2:
      return TokenKind::kUnknown;
    case 3:
      return TokenKind::kControl;
    case 4:
      return TokenKind::kUserDefined;
    case 5:
      return TokenKind::kUnused;
    case 6:
      return TokenKind::kByte;
    default:
      return std::nullopt;
  }
}

bool ends_a_turn(std::string_view token) {
  constexpr std::string_view kNames[] = {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>",
                                         "<|endoftext|>"};
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
    const auto kind = kind_of_type(keys.token_type[i]);
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
  if (keys.merges.empty()) return bad(where, "merges", "missing, but a gpt2 tokenizer needs them");
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

Result<std::optional<TokenId>> token_id(const std::optional<std::int64_t>& id,
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
  QUIRE_ASSIGN_OR_RETURN(data.bos_id, token_id(keys.bos, where, "bos_token_id", size));
  QUIRE_ASSIGN_OR_RETURN(const auto eos, token_id(keys.eos, where, "eos_token_id", size));
  QUIRE_ASSIGN_OR_RETURN(const auto eot, token_id(keys.eot, where, "eot_token_id", size));
  add_eos(data, eos);
  add_eos(data, eot);
  for (std::size_t i = 0; i < size; ++i) {
    if (data.kinds[i] == TokenKind::kControl && ends_a_turn(data.tokens[i])) {
      add_eos(data, static_cast<TokenId>(i));
    }
  }
  return {};
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
    if (keys.pre == "gpt-2") {
      data.pre_tokenizer = PreTokenizer::kGpt2;
    } else if (keys.pre == "smollm") {
      data.pre_tokenizer = PreTokenizer::kSmolLm;
    } else {
      return unsupported(where, "pre", keys.pre, "gpt-2, smollm");
    }
    QUIRE_RETURN_IF_ERROR(read_merges(keys, where, data));
    data.add_bos = keys.add_bos.value_or(false);
  } else if (keys.model == "llama") {
    if (keys.scores.size() != data.tokens.size()) {
      return bad(where, "scores",
                 fmt::format("{} scores for {} tokens", keys.scores.size(), data.tokens.size()));
    }
    const bool prefix = keys.add_space_prefix.value_or(true);
    data.style = BpeStyle::kSentencePiece;
    data.scores = std::move(keys.scores);
    data.escape_spaces = true;
    data.space_prefix = prefix ? SpacePrefix::kAlways : SpacePrefix::kNever;
    data.leading_space = prefix ? LeadingSpace::kStripOne : LeadingSpace::kKeep;
    data.byte_fallback = true;
    QUIRE_ASSIGN_OR_RETURN(data.unk_id,
                           token_id(keys.unk, where, "unknown_token_id", data.tokens.size()));
    data.add_bos = keys.add_bos.value_or(data.bos_id.has_value());
  } else {
    return unsupported(where, "model", keys.model, "gpt2, llama");
  }
  data.add_eos = keys.add_eos.value_or(false);
  return data;
}

}  // namespace quire
