#include "text/pcre2_pattern.h"

#include <array>

#include <fmt/format.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/printable.h"

namespace quire {

namespace {

// Longer than any published pattern.
constexpr std::size_t kMaxRegexBytes = 16384;
constexpr std::uint32_t kHeapLimitKib = 65536;

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(error, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

}  // namespace

struct Pcre2Pattern::Compiled {
  std::string regex;
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
};

Pcre2Pattern::Pcre2Pattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Pcre2Pattern::~Pcre2Pattern() = default;

Result<std::unique_ptr<const Pattern>> Pcre2Pattern::create(std::string_view regex) {
  if (regex.size() > kMaxRegexBytes) {
    return Status::bad_model(fmt::format("a regular expression is {} bytes long, more than {}",
                                         regex.size(), kMaxRegexBytes));
  }
  QUIRE_ASSIGN_OR_RETURN(const std::string translated, oniguruma_to_pcre2(regex));
  auto compiled = std::make_unique<Compiled>();
  compiled->regex = regex;
  int error = 0;
  PCRE2_SIZE offset = 0;
  // In Ruby's syntax ^ and $ are about lines.
  compiled->code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C,
      &error, &offset, nullptr);
  if (compiled->code == nullptr) {
    return Status::bad_model(fmt::format("the regular expression \"{}\" is not valid: {}",
                                         printable(regex), message_of(error)));
  }
  compiled->context = pcre2_match_context_create(nullptr);
  if (compiled->context == nullptr) {
    return Status::resource_exhausted("no memory for a regular expression");
  }
  pcre2_set_match_limit(compiled->context, kMatchLimit);
  pcre2_set_heap_limit(compiled->context, kHeapLimitKib);
  return std::unique_ptr<const Pattern>(new Pcre2Pattern(std::move(compiled)));
}

bool Pcre2Pattern::find(std::string_view text, std::size_t from, TextSpan& match,
                        Status& status) const {
  const std::unique_ptr<pcre2_match_data, FreeMatchData> data(
      pcre2_match_data_create_from_pattern(compiled_->code, nullptr));
  if (data == nullptr) {
    status = Status::resource_exhausted("no memory for a match of a regular expression");
    return false;
  }
  const int result = pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(text.data()),
                                 text.size(), from, 0, data.get(), compiled_->context);
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    status = Status::resource_exhausted(
        fmt::format("the tokenizer's regular expression \"{}\" gave up at byte {} of a text of {}: "
                    "{} ({} steps, {} KiB)",
                    printable(compiled_->regex), from, text.size(), message_of(result), kMatchLimit,
                    kHeapLimitKib),
        "shorten or break up the text");
    return false;
  }
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data.get());
  match = {offsets[0], offsets[1]};
  return true;
}

}  // namespace quire
