// Text to token ids and back, for BPE vocabularies, byte-level (GPT-2 and its descendants) and
// SentencePiece-style, with merges or with scores, and for unigram, word-piece and word models.
// Immutable after creation, so that any number of threads may share one; every call takes time and
// memory linear in its input, up to a logarithm where a vocabulary lets one word be arbitrarily
// long, and up to the limits of PCRE2 where a pre-tokenizer's pattern is not one of those known by
// name (text/pattern.h).
//
// BPE: Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units" (2016), over
// bytes as in Radford et al., "Language Models are Unsupervised Multitask Learners" (2019).
//
// A string need not be UTF-8: a byte that is no part of a valid sequence is an ordinary byte of a
// byte-level vocabulary, and a character of its own (byte fallback, or unknown) otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "text/text_segment.h"
#include "text/vocab_data.h"

namespace quire {

struct EncodeOptions {
  // Put BOS or the like before (BOS not if the text begins with it) and EOS after, where the
  // vocabulary asks for it.
  bool add_special_tokens = true;
  // Recognise special tokens spelled in the text. Off, "<|im_end|>" is ten characters of text, and
  // no input can yield a control token (but for the unknown token, where text needs it).
  bool parse_special = false;
};

// Where encoding stops before the end of a text. The rest of the text costs nothing then, so that a
// text that is far too long is refused about as fast as one that just fits is encoded.
struct EncodeLimits {
  // More tokens than that, or a text that cannot have fewer by its length: kInvalidArgument.
  std::size_t max_tokens = SIZE_MAX;
  // A longer word, as pre-tokenization cuts them: kInvalidArgument. Merging one takes 24 bytes of
  // memory for each of its bytes.
  std::size_t max_word_bytes = SIZE_MAX;
  // Asked every few thousand words or merges, may be empty. True: nobody wants the tokens any more,
  // kCancelled.
  std::function<bool()> cancelled = {};
  // How the first two errors begin, and what they advise.
  std::string what = "the text";
  std::string remedy = "shorten it";
};

class SpecialRanges;
class TokenDecoder;

class Tokenizer {
 public:
  struct Model;  // the tables; internal to src/text

  // Checks `data` (ids within the vocabulary, merges whose parts and results are tokens, byte
  // tokens that parse, ...); kBadModel with what is wrong.
  static Result<std::unique_ptr<const Tokenizer>> create(VocabData data);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // kResourceExhausted if the pre-tokenizer's pattern hits a limit on this text; never for the
  // patterns of text/scanners.h.
  Result<std::vector<TokenId>> encode(std::string_view text, EncodeOptions options = {},
                                      const EncodeLimits& limits = {}) const;

  // Encodes the concatenation of `segments` as one text, in which special tokens are recognised
  // only where they lie wholly within template text. (Special tokens that are looked for in
  // normalized text are recognised in stretches that are wholly template text.)
  Result<std::vector<TokenId>> encode(std::span<const TextSegment> segments,
                                      bool add_special_tokens = true,
                                      const EncodeLimits& limits = {}) const;

  // The text of `ids`, always valid UTF-8: U+FFFD stands for bytes that are not. Ids outside the
  // vocabulary add nothing. Equal to what a Detokenizer gives piece by piece.
  // Of a run of byte-fallback tokens that is not UTF-8 the valid characters stay and each other
  // byte is U+FFFD; the tokenizers library replaces every byte of such a run, which a stream that
  // has already returned its beginning cannot.
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens = true) const;

  // The bytes that a token adds to the text where it is not the first; empty for an id outside the
  // vocabulary.
  std::string_view token_bytes(TokenId id) const;
  // The same where it is the first.
  std::string_view first_token_bytes(TokenId id) const;
  // A token as published ("Ġthe", "▁the", "<0x0A>"); empty for an id outside the vocabulary.
  std::string_view token_text(TokenId id) const;
  // The id of a token as published.
  std::optional<TokenId> find(std::string_view token_text) const;

  bool is_special(TokenId id) const;  // control and unknown tokens
  bool is_eos(TokenId id) const;
  bool contains(TokenId id) const;  // 0 <= id < vocab_size()

  std::size_t vocab_size() const;
  std::optional<TokenId> bos_id() const;
  std::span<const TokenId> eos_ids() const;
  bool adds_bos() const;
  const TokenDecoder& decoder() const;

 private:
  explicit Tokenizer(std::unique_ptr<const Model> model);

  Result<std::vector<TokenId>> encode(std::string_view text, const SpecialRanges& special_ranges,
                                      bool add_special_tokens, const EncodeLimits& limits) const;

  std::unique_ptr<const Model> model_;
};

}  // namespace quire
