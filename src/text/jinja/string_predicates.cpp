#include "text/jinja/methods.h"
#include "text/jinja/unicode.h"

namespace quire::jinja {

bool is_all(std::string_view view, std::string_view name) {
  if (name == "isupper" || name == "islower") return is_case(view, name == "isupper");
  const bool allow_empty = name == "isascii" || name == "isprintable";
  if (view.empty()) return allow_empty;
  bool after_cased = false;
  bool any_cased = false;
  for (std::size_t i = 0; i < view.size();) {
    const std::size_t begin = i;
    const char32_t c = next_code_point(view, i);
    bool ok = true;
    if (name == "isspace") ok = is_space(c);
    if (name == "isalpha") ok = is_alpha(c);
    if (name == "isalnum") ok = c != '_' && is_word(c);
    if (name == "isdecimal" || name == "isdigit" || name == "isnumeric") {
      ok = is_decimal(c) || (name == "isnumeric" && is_word(c) && !is_alpha(c) && c != '_');
    }
    if (name == "isascii") ok = c < 0x80;
    if (name == "isprintable") ok = is_printable(c);
    if (name == "isidentifier") ok = begin == 0 ? is_identifier_start(c) : is_word(c);
    if (name == "istitle") {
      ok = is_lower(c) ? after_cased : !((is_upper(c) || is_title(c)) && after_cased);
      any_cased |= is_cased(c);
      after_cased = is_cased(c);
    }
    if (!ok) return false;
  }
  return name != "istitle" || any_cased;
}

}  // namespace quire::jinja
