#include "text/pattern.h"

#include <algorithm>
#include <optional>

#include "text/pcre2_pattern.h"
#include "text/scanners.h"
#include "text/utf8.h"

namespace quire {

namespace {

class Literal : public Pattern {
 public:
  explicit Literal(std::string text) : text_(std::move(text)) {}

  bool find(std::string_view text, std::size_t from, TextSpan& match, Status&) const override {
    if (text_.empty()) return false;
    const std::size_t begin = text.find(text_, from);
    if (begin == std::string_view::npos) return false;
    match = {begin, begin + text_.size()};
    return true;
  }

 private:
  std::string text_;
};

class Scanned : public Pattern {
 public:
  explicit Scanned(Scanner scanner) : scanner_(scanner) {}

  bool find(std::string_view text, std::size_t from, TextSpan& match, Status&) const override {
    return from < text.size() && scanner_(text, from, match);
  }

 private:
  Scanner scanner_;
};

}  // namespace

Result<std::unique_ptr<const Pattern>> Pattern::create(const TextPattern& pattern) {
  if (!pattern.is_regex) return std::unique_ptr<const Pattern>(new Literal(pattern.text));
  if (const Scanner scanner = find_scanner(pattern.text)) {
    return std::unique_ptr<const Pattern>(new Scanned(scanner));
  }
  return create_pcre2(pattern.text);
}

Result<std::unique_ptr<const Pattern>> Pattern::create_pcre2(std::string_view regex) {
  return Pcre2Pattern::create(regex);
}

bool Matches::next(TextSpan& match, Status& status) {
  while (from_ <= text_.size()) {
    if (!pattern_->find(text_, from_, match, status)) {
      from_ = text_.size() + 1;
      return false;
    }
    if (match.begin == match.end && match.end == last_end_) {
      from_ += from_ < text_.size() ? symbol_size(text_, from_) : 1;
      continue;
    }
    from_ = last_end_ = match.end;
    return true;
  }
  return false;
}

}  // namespace quire
