// SentencePiece's own file, tokenizer.model.
// https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/vocab_data.h"

namespace quire {

// What Quire needs of it; numbers and defaults are the file's own.
struct SentencePieceModel {
  enum class Kind : std::uint8_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

  Kind kind = Kind::kUnigram;
  std::vector<std::string> pieces;
  std::vector<float> scores;
  std::vector<TokenKind> kinds;
  std::int32_t unk_id = 0;
  std::int32_t bos_id = 1;  // -1: none
  std::int32_t eos_id = 2;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;

  std::string normalizer;     // "identity", "nmt_nfkc"
  bool has_charsmap = false;  // a table of characters that are replaced
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// What a piece's type says it is, and as much of a token in `tokenizer.ggml.token_type` of GGUF;
// nullopt where no type has that number.
std::optional<TokenKind> kind_of_piece(std::int64_t type);

// Reads `bytes`, checking each length. `where` names the file in errors. kBadModel.
Result<SentencePieceModel> read_sentencepiece_model(std::string_view bytes, std::string_view where);

// The tokenizer that it describes, without what files beside it say. kUnimplemented naming what of
// the model is not supported.
Result<VocabData> sentencepiece_vocab(SentencePieceModel model, std::string_view where);

}  // namespace quire
