#include "text/jinja/search.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace quire::jinja {

std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // glibc's memmem is the two-way algorithm: linear time, constant space.
  const void* found =
      ::memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

Result<std::size_t> rfind_bytes(std::string_view text, std::string_view needle, Budget& budget) {
  if (needle.size() > text.size()) return std::string_view::npos;
  if (needle.empty()) return text.size();
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::size_t> last,
                         find_all(text, needle, 1, true, budget));
  return last.empty() ? std::string_view::npos : last[0];
}

Result<std::vector<std::size_t>> find_all(std::string_view text, std::string_view needle,
                                          std::size_t limit, bool from_right, Budget& budget) {
  std::vector<std::size_t> out;
  if (needle.empty() || needle.size() > text.size()) return out;
  QUIRE_RETURN_IF_ERROR(budget.scan(text.size()));
  std::string reversed_text;
  std::string reversed_needle;
  Budget::Loan loan;
  if (from_right) {
    QUIRE_RETURN_IF_ERROR(budget.characters(text.size() / 4));
    QUIRE_ASSIGN_OR_RETURN(loan, budget.borrow(text.size() + needle.size()));
    reversed_text.assign(text.rbegin(), text.rend());
    reversed_needle.assign(needle.rbegin(), needle.rend());
    text = reversed_text;
    needle = reversed_needle;
  }
  for (std::size_t at = 0; out.size() < limit;) {
    at = find_bytes(text, needle, at);
    if (at == std::string_view::npos) break;
    QUIRE_RETURN_IF_ERROR(budget.step());
    QUIRE_RETURN_IF_ERROR(budget.bytes(2 * sizeof(std::size_t)));
    out.push_back(from_right ? text.size() - at - needle.size() : at);
    at += needle.size();
  }
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

std::size_t count_all(std::string_view text, std::string_view needle) {
  std::size_t count = 0;
  if (needle.empty()) return count;
  for (std::size_t at = find_bytes(text, needle, 0); at != std::string_view::npos;
       at = find_bytes(text, needle, at + needle.size())) {
    ++count;
  }
  return count;
}

}  // namespace quire::jinja
