// The tables behind a Tokenizer, as tokenizer_build.cpp fills them and tokenizer.cpp reads them.
// Internal to src/text.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/merged_words.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"
#include "text/tokenizer.h"
#include "text/unigram.h"
#include "text/word_table.h"

namespace quire {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

struct Tokenizer::Model {
  // As given, except that added_tokens, merges, scores and the steps have moved into what follows.
  VocabData data;

  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  TokenDecoder decoder;

  std::vector<std::string> bytes;                         // by id: what the token adds to a text
  std::unordered_map<TokenId, std::string> first_bytes;   // the same at its start, if not equal
  std::vector<bool> special;                              // by id
  std::unordered_map<std::string_view, TokenId> by_text;  // views of data.tokens

  // Two passes, as in the tokenizers library: what is matched in the text as it is goes first.
  AddedTokenMatcher raw_matcher{{}};
  AddedTokenMatcher normalized_matcher{{}};

  // First symbols. Byte-level: by byte, -1 where the vocabulary has none.
  std::array<TokenId, 256> byte_ids{};
  // Where symbols are characters: by character. Where merges go by score, a character that is no
  // token may still be part of one: it has a symbol of its own, from vocab_size() on.
  std::unordered_map<std::string, TokenId, StringHash, std::equal_to<>> char_ids;
  std::array<TokenId, 128> ascii_ids{};   // the same of ASCII, -1 where there is none
  std::vector<std::string> symbol_texts;  // of the symbols from vocab_size() on

  MergeTable merges{0};
  PieceTree pieces;          // of a unigram model
  double unknown_score = 0;  // and what a character counts that no piece spells

  // Words whose encoding is one token, by their bytes; spares most words of a text the merging.
  WordTable whole_words{0};
  std::size_t longest_whole_word = 0;

  // Text may be cut at merged_words although the vocabulary names no pre-tokenizer.
  bool cuts_by_merges = false;
  MergedWords merged_words;
  // A space before text that is not empty. Where merged_words reads spaces, this is all that is
  // left of normalization.
  bool prepends_space = false;
  // Text that no token spells may become one unknown token together with what is before it.
  bool fuses_unknown = false;

  // At most so many bytes of a word become one token; 0 where text may also become no token at all,
  // or any number of characters one.
  std::size_t most_bytes_per_token = 0;
  // And neither normalization, pre-tokenization nor added tokens remove any of a text, so that
  // it is true for a text as it is given, too.
  bool keeps_all_text = false;

  // Of a word-piece model: no token has more bytes.
  std::size_t longest_token = 0;

  std::size_t size() const { return data.tokens.size(); }

  // The first symbol that a character or stray byte becomes; -1: none spells it.
  TokenId symbol_of(std::string_view character) const {
    const auto byte = static_cast<unsigned char>(character.front());
    if (byte < ascii_ids.size()) return ascii_ids[byte];
    const auto found = char_ids.find(character);
    return found == char_ids.end() ? -1 : found->second;
  }

  // Whether text may become it: user text must never become a control token,
  // whatever the file says; byte tokens and the unknown token are what is left
  // for text that nothing spells.
  bool is_ordinary(TokenId id) const {
    const auto index = static_cast<std::size_t>(id);
    return !special[index] && data.kinds[index] != TokenKind::kByte &&
           data.kinds[index] != TokenKind::kAdded;
  }
};

// Encodes words: the state of one encode() call.
class WordEncoder {
 public:
  WordEncoder(const Tokenizer::Model& model, std::vector<TokenId>& out)
      : model_(&model), merger_(model.merges), cutter_(model.pieces), out_(&out) {}

  // Appends the tokens of one word: bytes, or normalized text where SentencePiece-style. False: it
  // was given up, for `cancelled` (EncodeLimits) said so.
  bool encode(std::string_view word, const std::function<bool()>& cancelled);

  // The same without short_words_.
  bool encode_any(std::string_view word, const std::function<bool()>& cancelled);
  // And without the table of whole words.
  bool encode_by_model(std::string_view word, const std::function<bool()>& cancelled);

 private:
  bool encode_by_merges(std::string_view word, const std::function<bool()>& cancelled);
  bool encode_by_pieces(std::string_view word, const std::function<bool()>& cancelled);
  void encode_by_longest(std::string_view word);
  void append_unknown(std::string_view symbol, std::vector<TokenId>& ids) const;

  const Tokenizer::Model* model_;
  BpeMerger merger_;
  UnigramCutter cutter_;
  std::vector<UnigramCutter::Piece> cut_;
  std::vector<TokenId>* out_;
  std::vector<TokenId> symbols_;
  WordCache cache_;
  ShortWordCache short_words_;
};

}  // namespace quire
