// Spaces as SentencePiece has them.
#pragma once

#include "text/vocab_data.h"

namespace quire {

// Makes every space a U+2581, with one more before the text if `prefix`, and back in decoding.
void append_space_steps(bool prefix, VocabData& data);

}  // namespace quire
