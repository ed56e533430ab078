// A tokenizer as plain data: the whole of what src/text knows about one. A loader elsewhere fills
// it from tokenizer.json or from GGUF keys, so that no file format reaches this folder, and
// Tokenizer::create checks it. Every choice that a format can make is a field here; a new step of
// normalization, pre-tokenization or decoding is one more enumerator.
#pragma once

#include <cstddef>
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
  kAdded,        // the same, where the vocabulary proper lacks it: no merge makes it
  kByte,         // "<0xNN>": one byte, for text that no other token spells
  kUnused,
};

// How a word becomes tokens.
enum class WordModel : std::uint8_t {
  kBpe,        // by merges, or by the scores of what they make
  kUnigram,    // the pieces whose scores add up to most
  kWordPiece,  // the longest token that fits, again and again
  kWordLevel,  // the token that is the word
};

// What the first symbols of a word are, before any merge.
enum class BpeStyle : std::uint8_t {
  kByteLevel,   // bytes; tokens are published in GPT-2's alphabet of printable characters
  kCharacters,  // the characters of the text, as normalization and pre-tokenization leave it
};

// What a step looks for: a string, or a regular expression in Oniguruma's syntax.
struct TextPattern {
  std::string text;
  bool is_regex = false;
};

// A change of the text before anything but added tokens is cut out of it.
struct NormalizerStep {
  enum class Kind : std::uint8_t {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kLowercase,
    kStrip,         // white space at both ends, as `left` and `right` say
    kStripAccents,  // every mark
    kReplace,       // each match of `pattern` becomes `content`
    kPrepend,       // `content` before text that is not empty
    kByteSymbols,   // each byte becomes its character of GPT-2's alphabet
  };
  Kind kind = Kind::kNfc;
  TextPattern pattern = {};
  std::string content = {};
  bool left = true;
  bool right = true;
};

// What becomes of the matches where text is cut.
enum class SplitBehavior : std::uint8_t {
  kRemoved,
  kIsolated,            // words of their own
  kMergedWithPrevious,  // part of the word before, unless that is a match too
  kMergedWithNext,
  kContiguous,  // neighbouring matches are one word
};

// How text is cut into words before BPE; merges never cross a cut. Each step cuts the words that
// the step before it has left.
struct PreTokenizerStep {
  enum class Kind : std::uint8_t {
    kSplit,            // at `pattern`; `invert`: what lies between the matches counts as matches
    kDigits,           // at numeric characters
    kPunctuation,      // at ASCII and Unicode punctuation
    kWhitespace,       // words are runs of word characters and runs of others; no white space
    kWhitespaceSplit,  // words are what stands between white space
    kMetaspace,        // ' ' becomes `content`, which may also come first; a cut before each
    kPrefixSpace,      // a space before each word that does not start with one
    kByteSymbols,      // each byte becomes its character of GPT-2's alphabet
  };
  // Where kMetaspace puts `content` before words that do not start with it.
  enum class Prefix : std::uint8_t { kNever, kFirst, kAlways };  // kFirst: at the start of the text

  Kind kind = Kind::kSplit;
  TextPattern pattern = {};
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
  std::string content = {};
  Prefix prefix = Prefix::kNever;
  bool split = true;  // kMetaspace: whether it cuts
};

// How tokens as published become text again. Steps work on each token; kFuse joins them all, and
// what follows it works on the whole text.
struct DecoderStep {
  enum class Kind : std::uint8_t {
    kByteLevel,     // GPT-2's alphabet to bytes, then as kFuse
    kMetaspace,     // `content` becomes ' '; in the first token it goes, if `prefixed`
    kReplace,       // each match of `pattern` becomes `content`
    kByteFallback,  // "<0xNN>" becomes a byte
    kFuse,
    kWordPiece,  // a space before each token but the first, unless it begins
                 // with `content`, which goes; if `cleanup`, none before
                 // punctuation and in contractions
    kStrip,  // up to `start` times `content`, one character, from the front, and `stop` from the
             // end
  };
  Kind kind = Kind::kFuse;
  TextPattern pattern = {};
  std::string content = {};
  bool prefixed = false;
  bool cleanup = false;
  std::uint32_t start = 0;
  std::uint32_t stop = 0;
};

// Text that is matched whole before anything else is cut. Contents and flags as in tokenizer.json.
struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool special = false;      // recognised only where special tokens may be parsed
  bool lstrip = false;       // includes the white space on its left
  bool rstrip = false;       // and on its right
  bool single_word = false;  // only where no word character touches it
  bool normalized = false;   // matched in normalized text, after all others
};

struct BpeMerge {
  std::string left;
  std::string right;
};

struct VocabData {
  WordModel model = WordModel::kBpe;
  BpeStyle style = BpeStyle::kByteLevel;  // of any other model than kBpe: kCharacters

  // By id, as published. An empty string is an id without a token.
  std::vector<std::string> tokens;
  std::vector<TokenKind> kinds;    // same length as tokens
  std::size_t num_unused_ids = 0;  // at most: below the largest one, that no token has
  std::vector<AddedToken> added_tokens;

  // Either merges, best first, or one score per token (the pair whose concatenation scores highest
  // is merged next, as in SentencePiece's BPE models). Exactly one of the two may be non-empty.
  std::vector<BpeMerge> merges;
  std::vector<float> scores;

  std::vector<double> piece_scores;  // of kUnigram: of each token, log probabilities
  std::string subword_prefix = {};   // of kWordPiece: before tokens that do not begin a word, "##"
  std::size_t max_word_characters = 0;  // of kWordPiece: a longer word is unknown

  std::vector<NormalizerStep> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizers;
  std::vector<DecoderStep> decoders;
  bool ignore_merges = false;  // a word that is itself a token is that token, whatever the merges

  // Text that no token spells: bytes if `byte_fallback`, else `unk_id` (one for a run of characters
  // if `fuse_unk`), else nothing, which is what the reference implementations do.
  bool byte_fallback = false;
  std::optional<TokenId> unk_id;
  bool fuse_unk = false;

  std::optional<TokenId> bos_id;
  std::vector<TokenId> eos_ids;     // any of them ends a sequence
  std::vector<TokenId> prefix_ids;  // put before a text where special tokens are asked for
  std::vector<TokenId> suffix_ids;  // and after it
};

}  // namespace quire
