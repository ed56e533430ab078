#include "text/dialects/dialect_marks.h"

#include <algorithm>
#include <vector>

namespace quire {

bool DialectMarks::is_token(std::string_view text) const {
  const auto token = vocabulary_.find(text);
  return token && vocabulary_.bytes(*token).empty();
}

ExprId DialectMarks::mark(std::string_view text) {
  std::vector<ExprId> parts;
  std::string_view plain = text.substr(0, 0);
  const auto flush = [&] {
    if (!plain.empty()) parts.push_back(builder_.literal(plain));
  };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t size = text.size() - at;
    while (size > 0 && !is_token(text.substr(at, size))) --size;
    if (size == 0) {
      plain = text.substr(at - plain.size(), plain.size() + 1);
      ++at;
      continue;
    }
    flush();
    const std::string_view name = text.substr(at, size);
    if (!vocabulary_.is_end(*vocabulary_.find(name))) parts.push_back(builder_.token(name));
    at += size;
    plain = text.substr(at, 0);
  }
  flush();
  return builder_.seq(parts);
}

Result<Dfa> text_without(std::span<const std::string_view> marks, GrammarBudget& budget) {
  std::vector<Dfa> with;
  for (const std::string_view mark : marks) {
    if (mark.empty()) continue;
    const std::vector<Dfa> parts = {Dfa::any_text(), Dfa::literal(mark), Dfa::any_text()};
    QUIRE_ASSIGN_OR_RETURN(Dfa one, dfa_concat(parts, budget));
    with.push_back(std::move(one));
  }
  if (with.empty()) return Dfa::any_text();
  QUIRE_ASSIGN_OR_RETURN(const Dfa any, dfa_union(with, budget));
  return dfa_complement(any, budget);
}

}  // namespace quire
