// What every rendering of a chat template starts from, so that a prompt that is shown is the prompt
// that is run.
#pragma once

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire {

// The model's special tokens and the present time; no messages yet.
ChatTemplateInput chat_input(const Tokenizer& tokenizer);

}  // namespace quire
