// Prompts that have a model write between two texts (Bavarian et al. 2022, "Efficient training of
// language models to fill in the middle"): the text before, the text after, then what comes
// between.
#pragma once

#include <string_view>
#include <vector>

#include "serve/protocols/openai/text_limits.h"

namespace quire {

// A text and the field that it came in, which errors name.
struct FillText {
  std::string_view text;
  std::string_view field;
};

// The tokens of such a prompt, in the order prefix, suffix, middle; `started` is what is there of
// the middle already. kUnimplemented, with the name of `after`, where the model has no tokens for
// it. Control tokens that are spelled in the texts are text.
Result<std::vector<TokenId>> fill_in_middle_prompt(const Engine& engine, const FillText& before,
                                                   const FillText& after, const FillText& started,
                                                   const ClientGone& gone);

}  // namespace quire
