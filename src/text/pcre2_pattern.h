// A pattern on PCRE2. Internal to src/text.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/pattern.h"

namespace quire {

class Pcre2Pattern : public Pattern {
 public:
  // `regex` is in Oniguruma's Ruby syntax, which the tokenizers library compiles. Where PCRE2 means
  // the same by another spelling it is rewritten (\s, \w, nested classes, line ends); what it would
  // understand in another way is refused. \p{...} is that of PCRE2's version of Unicode.
  static Result<std::unique_ptr<const Pattern>> create(std::string_view regex);

  ~Pcre2Pattern() override;

  // kResourceExhausted if a match needs more steps than kMatchLimit.
  bool find(std::string_view text, std::size_t from, TextSpan& match,
            Status& status) const override;

  static constexpr std::uint32_t kMatchLimit = 10'000'000;

 private:
  struct Compiled;
  explicit Pcre2Pattern(std::unique_ptr<Compiled> compiled);

  std::unique_ptr<Compiled> compiled_;
};

// The rewriting alone, for tests.
Result<std::string> oniguruma_to_pcre2(std::string_view regex);

}  // namespace quire
