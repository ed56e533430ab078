#include "load/sentencepiece_model.h"

#include <bit>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/printable.h"
#include "load/protobuf_cursor.h"
#include "load/space_steps.h"

namespace quire {
namespace {

constexpr std::size_t kMaxPieces = 4'000'000;

Status damaged(std::string_view where, std::string_view what) {
  return Status::bad_model(fmt::format("{}: {} is damaged", where, what),
                           "is it a SentencePiece model? fetch it again");
}

// ModelProto.SentencePiece
Status read_piece(std::string_view bytes, std::string_view where, SentencePieceModel& model) {
  std::string text;
  float score = 0;
  std::uint64_t type = 1;
  ProtobufCursor cursor(bytes);
  while (const auto field = cursor.next()) {
    if (field->number == 1 && field->has_bytes) text = field->bytes;
    if (field->number == 2 && !field->has_bytes) {
      score = std::bit_cast<float>(static_cast<std::uint32_t>(field->value));
    }
    if (field->number == 3 && !field->has_bytes) type = field->value;
  }
  const auto kind = kind_of_piece(static_cast<std::int64_t>(type));
  if (cursor.damaged() || !kind) {
    return damaged(where, fmt::format("piece {}", model.pieces.size()));
  }
  if (model.pieces.size() == kMaxPieces) {
    return Status::bad_model(fmt::format("{}: more than {} pieces", where, kMaxPieces));
  }
  model.pieces.push_back(std::move(text));
  model.scores.push_back(score);
  model.kinds.push_back(*kind);
  return {};
}

// TrainerSpec
Status read_trainer(std::string_view bytes, std::string_view where, SentencePieceModel& model) {
  ProtobufCursor cursor(bytes);
  while (const auto field = cursor.next()) {
    if (field->has_bytes) continue;
    const auto number = static_cast<std::int32_t>(field->value);
    switch (field->number) {
      case 3:
        if (field->value < 1 || field->value > 4) return damaged(where, "the kind of model");
        model.kind = static_cast<SentencePieceModel::Kind>(field->value);
        break;
      case 24:
        model.whitespace_as_suffix = field->value != 0;
        break;
      case 35:
        model.byte_fallback = field->value != 0;
        break;
      case 40:
        model.unk_id = number;
        break;
      case 41:
        model.bos_id = number;
        break;
      case 42:
        model.eos_id = number;
        break;
      default:
        break;
    }
  }
  return cursor.damaged() ? damaged(where, "what it says of its training") : Status();
}

// NormalizerSpec
Status read_normalizer(std::string_view bytes, std::string_view where, SentencePieceModel& model) {
  ProtobufCursor cursor(bytes);
  while (const auto field = cursor.next()) {
    if (field->number == 1 && field->has_bytes) model.normalizer = field->bytes;
    if (field->number == 2) model.has_charsmap = field->has_bytes && !field->bytes.empty();
    if (field->number == 3) model.add_dummy_prefix = field->value != 0;
    if (field->number == 4) model.remove_extra_whitespaces = field->value != 0;
    if (field->number == 5) model.escape_whitespaces = field->value != 0;
  }
  return cursor.damaged() ? damaged(where, "its normalizer") : Status();
}

Status not_supported(std::string_view where, std::string_view what) {
  return Status::unimplemented(fmt::format("{}: {} is not supported", where, what),
                               "a tokenizer.json of the model may say it in another way");
}

std::optional<TokenId> id_in(std::int32_t id, std::size_t size) {
  if (id < 0 || static_cast<std::size_t>(id) >= size) return std::nullopt;
  return id;
}

}  // namespace

std::optional<TokenKind> kind_of_piece(std::int64_t type) {
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

Result<SentencePieceModel> read_sentencepiece_model(std::string_view bytes,
                                                    std::string_view where) {
  SentencePieceModel model;
  ProtobufCursor cursor(bytes);
  while (const auto field = cursor.next()) {
    if (!field->has_bytes) continue;
    if (field->number == 1) QUIRE_RETURN_IF_ERROR(read_piece(field->bytes, where, model));
    if (field->number == 2) QUIRE_RETURN_IF_ERROR(read_trainer(field->bytes, where, model));
    if (field->number == 3) QUIRE_RETURN_IF_ERROR(read_normalizer(field->bytes, where, model));
  }
  if (cursor.damaged()) return damaged(where, "the file");
  if (model.pieces.empty()) return damaged(where, "the list of pieces, which has none,");
  return model;
}

Result<VocabData> sentencepiece_vocab(SentencePieceModel model, std::string_view where) {
  const bool is_unigram = model.kind == SentencePieceModel::Kind::kUnigram;
  if (!is_unigram && model.kind != SentencePieceModel::Kind::kBpe) {
    constexpr std::string_view kNames[] = {"", "unigram", "bpe", "word", "char"};
    return not_supported(where, fmt::format("a SentencePiece model of the kind {}",
                                            kNames[static_cast<std::size_t>(model.kind)]));
  }
  if (model.has_charsmap) {
    return not_supported(where, fmt::format("the normalizer {}", printable(model.normalizer)));
  }
  if (model.remove_extra_whitespaces) return not_supported(where, "remove_extra_whitespaces");
  if (!model.escape_whitespaces) return not_supported(where, "escape_whitespaces false");
  if (model.whitespace_as_suffix) return not_supported(where, "treat_whitespace_as_suffix");
  VocabData data;
  data.style = BpeStyle::kCharacters;
  data.tokens = std::move(model.pieces);
  if (is_unigram) {
    data.model = WordModel::kUnigram;
    data.piece_scores.assign(model.scores.begin(), model.scores.end());
  } else {
    data.scores = std::move(model.scores);
  }
  data.kinds = std::move(model.kinds);
  data.byte_fallback = model.byte_fallback;
  data.fuse_unk = true;
  for (std::size_t i = 0; i < data.tokens.size(); ++i) {
    const TokenKind kind = data.kinds[i];
    const bool special = kind == TokenKind::kControl || kind == TokenKind::kUnknown;
    const std::string& piece = data.tokens[i];
    if (kind == TokenKind::kUserDefined) {
      // These are looked for where spaces are U+2581 already: with a space they are never found.
      if (piece.find(' ') != std::string::npos) continue;
      if (piece.find("\u2581") != std::string::npos) {
        return not_supported(where, fmt::format("the user-defined piece {}", printable(piece)));
      }
    }
    if ((special || kind == TokenKind::kUserDefined) && !piece.empty()) {
      data.added_tokens.push_back(
          {.content = data.tokens[i], .id = static_cast<TokenId>(i), .special = special});
    }
  }
  data.unk_id = id_in(model.unk_id, data.tokens.size());
  data.bos_id = id_in(model.bos_id, data.tokens.size());
  if (const auto eos = id_in(model.eos_id, data.tokens.size())) data.eos_ids = {*eos};
  append_space_steps(model.add_dummy_prefix, data);
  return data;
}

}  // namespace quire
