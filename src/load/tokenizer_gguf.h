// A tokenizer from the `tokenizer.ggml.*` keys of a GGUF file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/vocab_data.h"

namespace quire {

// The keys by the last part of their names; an absent key is empty. Whoever has the file fills
// this.
struct GgufTokenizerKeys {
  std::string model;  // "gpt2", "llama"
  std::string pre;    // pre-tokenizer of "gpt2" models
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> token_type;
  std::vector<std::string> merges;  // "left right"
  std::optional<std::int64_t> bos;  // bos_token_id, and so on
  std::optional<std::int64_t> eos;
  std::optional<std::int64_t> eot;
  std::optional<std::int64_t> unk;  // unknown_token_id
  // All keys that name a token, by name ("padding_token_id"), those above among them.
  std::vector<std::pair<std::string, std::int64_t>> token_ids;
  std::optional<bool> add_bos;  // add_bos_token
  std::optional<bool> add_eos;
  std::optional<bool> add_space_prefix;
};

// Supported: model "gpt2" (byte-level, with merges) whose `pre` is one of llama.cpp's names for the
// pre-tokenizers of GPT-2, SmolLM and StarCoder, Llama 3, Qwen2, GPT-4o, tekken, Falcon and
// DeepSeek (the error for any other lists them), model "llama" (SentencePiece-style, with
// scores; Gemma's too), and model "gemma4" (the same with merges). Errors: kUnimplemented naming
// another model or `pre`, kBadModel for keys that contradict each other: a token id beyond the
// vocabulary (also one that nothing needs), types or scores for another number of tokens, a merge
// of what are no tokens. `where` names the file.
//
// Every token that is known to end a turn (`eot`, and control tokens spelled <|im_end|>,
// <|eot_id|>, <end_of_turn>, <turn|>, <|end|> or <|endoftext|>) counts as an end-of-sequence id
// beside `eos`.
Result<VocabData> read_tokenizer_gguf(GgufTokenizerKeys keys, std::string_view where);

}  // namespace quire
