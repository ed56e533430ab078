// The texts that `quire bench spec` decodes: what is said again, what is not, and what nobody can
// guess.
#pragma once

#include <array>
#include <string_view>

namespace quire {

struct SpecText {
  std::string_view name;
  std::string_view message;  // of a user
  // The output is digits, each as likely as the others, whatever the model thinks of them: two or
  // three of them in a row have been there before, and what followed says nothing.
  bool random_digits = false;
};

// An edit of code, a summary that quotes, records as JSON, a story, which has nothing to look up,
// and random digits.
const std::array<SpecText, 5>& spec_texts();

}  // namespace quire
