// What normalizers and pre-tokenizers look for in a text. Patterns that published tokenizers share
// are known by their exact spelling and have scanners written by hand, which read every character a
// fixed number of times whatever the text is; all others run on PCRE2 with a limit.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "text/vocab_data.h"

namespace quire {

struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Finds the leftmost match in `text` at or after `from` <= text.size() into `match`. An error says
// that a limit was hit.
class Pattern {
 public:
  // Errors: kUnimplemented naming syntax that PCRE2 understands in another way than Oniguruma,
  // kBadModel for what is no regular expression.
  static Result<std::unique_ptr<const Pattern>> create(const TextPattern& pattern);
  // On PCRE2 even if there is a scanner for it.
  static Result<std::unique_ptr<const Pattern>> create_pcre2(std::string_view regex);

  Pattern() = default;
  virtual ~Pattern() = default;
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  virtual bool find(std::string_view text, std::size_t from, TextSpan& match,
                    Status& status) const = 0;
};

// The matches of a text in order, as Oniguruma's Rust binding iterates: an empty match that touches
// the end of the one before is passed over.
class Matches {
 public:
  Matches(const Pattern& pattern, std::string_view text) : pattern_(&pattern), text_(text) {}

  // False at the end, and where `status` has become an error.
  bool next(TextSpan& match, Status& status);

 private:
  const Pattern* pattern_;
  std::string_view text_;
  std::size_t from_ = 0;
  std::size_t last_end_ = SIZE_MAX;
};

}  // namespace quire
