// Tokens for people: each token's text above its id, so that one sees where a text was cut.
//
//   Once ·upon ·a ·time
//   403  407   261 378
//
// Spaces, newlines and tabs are drawn (· ↵ →), bytes that form no whole character are written
// <0xE2>, characters that a terminal would not show or would obey <U+200D>. Control tokens carry a
// star at their id. With colour, neighbouring tokens lie on two alternating backgrounds; text and
// background are both set, so that it reads on dark and on light terminals.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "text/tokenizer.h"

namespace quire {

// Text that can be shown, and the columns that it needs.
struct VisibleText {
  std::string text;
  int width = 0;
};
VisibleText visible_text(std::string_view bytes);

// The lines of all tokens, wrapped to `width` columns and after tokens that end a line.
std::string token_rows(const Tokenizer& tokenizer, std::span<const TokenId> ids, int width,
                       bool color);

// "12 tokens (1 control), 48 bytes of text, 4.0 bytes a token".
std::string token_counts(const Tokenizer& tokenizer, std::span<const TokenId> ids);

// `text` as a control token looks in colour; unchanged without.
std::string as_control(std::string_view text, bool color);

}  // namespace quire
