// A piece of a rendered prompt together with its origin. A chat template's own text may spell
// control tokens ("<|im_end|>"); text that came from a request never may, or a user could forge a
// turn of another role. The renderer therefore keeps the two apart, and the tokenizer looks for
// special tokens only where `is_template` is set.
#pragma once

#include <string>

namespace quire {

struct TextSegment {
  std::string text;
  bool is_template = false;  // written by the template (or by the host), not by a request

  bool operator==(const TextSegment&) const = default;
};

}  // namespace quire
