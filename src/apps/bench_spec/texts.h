// The texts that `quire bench spec` decodes: what is said again, and what is not.
#pragma once

#include <array>
#include <string_view>

namespace quire {

struct SpecText {
  std::string_view name;
  std::string_view message;  // of a user
};

// An edit of code, a summary that quotes, records as JSON, and a story, which has nothing to look
// up.
const std::array<SpecText, 4>& spec_texts();

}  // namespace quire
