// How wide the tokens of a vocabulary are as JSON: from this follows how large an answer can become
// before it is known.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace quire {

// At most the bytes of `text` within a JSON string, without the quotes, after each byte that is not
// UTF-8 has become U+FFFD.
std::uint64_t json_text_bytes(std::string_view text);

class TokenWidths {
 public:
  // Ids are below `vocab_size`, and no position of an answer has more than `max_tokens` tokens.
  TokenWidths(const Tokenizer& tokenizer, std::int64_t vocab_size, std::int64_t max_tokens);

  // Bytes of the texts, as of json_text_bytes(), of the `count` widest different tokens together;
  // and of the lists of their bytes ("240,159").
  std::uint64_t texts(std::int64_t count) const { return at(texts_, count); }
  std::uint64_t byte_lists(std::int64_t count) const { return at(byte_lists_, count); }
  // Of one token id, and the comma after it.
  std::uint64_t id() const { return id_; }

 private:
  static std::uint64_t at(const std::vector<std::uint64_t>& sums, std::int64_t count);

  std::vector<std::uint64_t> texts_;  // entry i: of i tokens
  std::vector<std::uint64_t> byte_lists_;
  std::uint64_t id_ = 0;
};

}  // namespace quire
