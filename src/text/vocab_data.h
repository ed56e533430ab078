// A tokenizer as plain data: the whole of what src/text knows about one. A loader elsewhere fills
// it from tokenizer.json or from GGUF keys, so that no file format reaches this folder, and
// Tokenizer::create checks it. Every choice that a format can make is a field here; a new
// pre-tokenizer or decoder is one more enumerator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

namespace quire {

// What a token of the model's own vocabulary is.
enum class TokenKind : std::uint8_t {
  kNormal,
  kUnknown,      // stands for text that the vocabulary cannot spell
  kControl,      // steers the model (BOS, end of turn); user text never becomes one
  kUserDefined,  // added text that is matched whole, but is ordinary text
  kByte,         // "<0xNN>": one byte, for text that no other token spells
  kUnused,
};

// What the first symbols of a word are, before any merge.
enum class BpeStyle : std::uint8_t {
  kByteLevel,      // bytes; tokens are published in GPT-2's alphabet of printable characters
  kSentencePiece,  // characters; a space is published as U+2581
};

// How text is cut into words before BPE; merges never cross a cut.
enum class PreTokenizer : std::uint8_t {
  kNone,       // the text is one word
  kGpt2,       // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kSmolLm,     // every \p{N} alone, then kGpt2 on each stretch between them
  kMetaspace,  // a cut before every U+2581
};

// Where a space is put before the text (SentencePiece's "dummy prefix").
enum class SpacePrefix : std::uint8_t {
  kNever,
  kFirst,   // before the text, unless it starts with a special token
  kAlways,  // before each stretch of text between special tokens
};

// Which leading spaces decoding drops, to undo the prefix.
enum class LeadingSpace : std::uint8_t {
  kKeep,
  kStripOne,         // one space at the start of the decoded text
  kStripFirstToken,  // every U+2581 of the first token (the Metaspace decoder's rule)
};

// Text that is matched whole before anything else is cut. Contents and flags as in tokenizer.json.
struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool special = false;      // recognised only where special tokens may be parsed
  bool lstrip = false;       // takes the white space on its left with it
  bool rstrip = false;       // and on its right
  bool single_word = false;  // only where no word character touches it
  bool normalized = false;   // matched in normalized text, after all others
};

struct BpeMerge {
  std::string left;
  std::string right;
};

struct VocabData {
  BpeStyle style = BpeStyle::kByteLevel;

  // By id, as published. An empty string is an id without a token.
  std::vector<std::string> tokens;
  std::vector<TokenKind> kinds;  // same length as tokens
  std::vector<AddedToken> added_tokens;

  // Either merges, best first, or one score per token (the pair whose concatenation scores highest
  // is merged next, as in SentencePiece's BPE models). Exactly one of the two may be non-empty.
  std::vector<BpeMerge> merges;
  std::vector<float> scores;

  PreTokenizer pre_tokenizer = PreTokenizer::kNone;
  bool ignore_merges = false;  // a word that is itself a token is that token, whatever the merges

  // Normalization, kSentencePiece only.
  bool escape_spaces = false;  // write ' ' as U+2581
  SpacePrefix space_prefix = SpacePrefix::kNever;
  bool prefix_unless_present = false;  // no prefix where the text starts with a space already

  // Text that no token spells: bytes if `byte_fallback`, else `unk_id` (one for a run of characters
  // if `fuse_unk`), else nothing, which is what the reference implementations do.
  bool byte_fallback = false;
  std::optional<TokenId> unk_id;
  bool fuse_unk = false;

  LeadingSpace leading_space = LeadingSpace::kKeep;

  std::optional<TokenId> bos_id;
  std::vector<TokenId> eos_ids;  // any of them ends a sequence; the first is the one that is added
  bool add_bos = false;          // needs bos_id
  bool add_eos = false;          // needs an eos id
};

}  // namespace quire
