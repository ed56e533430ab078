#include "text/normalizer.h"

#include <algorithm>
#include <cstdlib>

#include <utf8proc.h>

#include "text/byte_alphabet.h"
#include "text/char_class.h"
#include "text/unicode_tables.h"
#include "text/utf8.h"

namespace quire {

namespace {

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

void append_utf8(char32_t code, std::string& out) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

int utf8proc_options(NormalizerStep::Kind kind) {
  switch (kind) {
    case NormalizerStep::Kind::kNfc:
      return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    case NormalizerStep::Kind::kNfd:
      return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case NormalizerStep::Kind::kNfkc:
      return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    default:
      return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
}

// `text` is valid UTF-8.
void append_normal_form(std::string_view text, int options, std::string& out) {
  utf8proc_uint8_t* normal = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &normal,
                                             static_cast<utf8proc_option_t>(options));
  if (size < 0) {  // no memory, or more than 2 GiB
    out += text;
  } else {
    out.append(reinterpret_cast<const char*>(normal), static_cast<std::size_t>(size));
  }
  std::free(normal);  // NOLINT(*-no-malloc): utf8proc allocates with malloc
}

// A character that normalization does not know, and a byte that is no character, stand between two
// texts of their own.
std::string normal_form(std::string_view text, NormalizerStep::Kind kind) {
  if (is_ascii(text)) return std::string(text);
  const int options = utf8proc_options(kind);
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    const std::size_t size = c.valid ? c.size : 1;
    if (!c.valid || (char_flags(c.code) & kInert) != 0) {
      append_normal_form(text.substr(begin, at - begin), options, out);
      out += text.substr(at, size);
      begin = at + size;
    }
    at += size;
  }
  append_normal_form(text.substr(begin), options, out);
  return out;
}

char32_t lower_case(char32_t code) {
  const auto ranges = lower_case_ranges();
  const auto after = std::ranges::upper_bound(ranges, code, {}, &LowerCaseRange::first);
  if (after != ranges.begin() && code <= std::prev(after)->last) {
    return static_cast<char32_t>(static_cast<std::int32_t>(code) + std::prev(after)->distance);
  }
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

std::string lowercase(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (!c.valid) {
      out += text[at++];
      continue;
    }
    if (c.code == 0x130) {  // the one character whose lower case is two: i and U+0307
      out += "i\xCC\x87";
    } else {
      append_utf8(lower_case(c.code), out);
    }
    at += c.size;
  }
  return out;
}

std::string strip_accents(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const FlaggedChar c = char_at(text, at);
    if ((c.flags & kAccent) == 0) out += text.substr(at, c.size);
    at += c.size;
  }
  return out;
}

std::string_view strip(std::string_view text, bool left, bool right) {
  std::size_t begin = 0;
  std::size_t end = text.size();
  if (left) {
    while (begin < end && (char_at(text, begin).flags & kSpace) != 0) {
      begin += char_at(text, begin).size;
    }
  }
  if (right) {
    std::size_t last = begin;  // after the last character that stays
    for (std::size_t at = begin; at < end;) {
      const FlaggedChar c = char_at(text, at);
      at += c.size;
      if ((c.flags & kSpace) == 0) last = at;
    }
    end = last;
  }
  return text.substr(begin, end - begin);
}

}  // namespace

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

Result<std::string> replace_matches(const Pattern& pattern, std::string_view text,
                                    std::string_view content) {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  Status status;
  Matches matches(pattern, text);
  std::size_t end = 0;
  for (TextSpan match; matches.next(match, status);) {
    out += text.substr(end, match.begin - end);
    out += content;
    end = match.end;
  }
  QUIRE_RETURN_IF_ERROR(status);
  out += text.substr(end);
  return out;
}

Result<Normalizer> Normalizer::create(std::vector<NormalizerStep> steps) {
  Normalizer normalizer;
  for (NormalizerStep& step : steps) {
    Step compiled;
    if (step.kind == NormalizerStep::Kind::kReplace) {
      QUIRE_ASSIGN_OR_RETURN(compiled.pattern, Pattern::create(step.pattern));
    }
    compiled.data = std::move(step);
    normalizer.steps_.push_back(std::move(compiled));
  }
  return normalizer;
}

Result<Normalizer::Normalized> Normalizer::normalize(std::string_view text) const {
  Normalized result{std::string(text), true};
  for (const Step& step : steps_) {
    std::string& now = result.text;
    switch (step.data.kind) {
      case NormalizerStep::Kind::kNfc:
      case NormalizerStep::Kind::kNfd:
      case NormalizerStep::Kind::kNfkc:
      case NormalizerStep::Kind::kNfkd:
        now = normal_form(now, step.data.kind);
        break;
      case NormalizerStep::Kind::kLowercase:
        now = lowercase(now);
        break;
      case NormalizerStep::Kind::kStrip: {
        std::string stripped(strip(now, step.data.left, step.data.right));
        if (step.data.left && !now.starts_with(stripped)) result.keeps_start = false;
        now = std::move(stripped);
        break;
      }
      case NormalizerStep::Kind::kStripAccents: {
        if (!now.empty() && (char_at(now, 0).flags & kAccent) != 0) result.keeps_start = false;
        now = strip_accents(now);
        break;
      }
      case NormalizerStep::Kind::kReplace: {
        QUIRE_ASSIGN_OR_RETURN(std::string replaced,
                               replace_matches(*step.pattern, now, step.data.content));
        TextSpan first;
        Status status;
        const bool cuts_start = step.data.content.empty() &&
                                step.pattern->find(now, 0, first, status) && first.begin == 0 &&
                                first.end > 0;
        if (cuts_start) result.keeps_start = false;
        now = std::move(replaced);
        break;
      }
      case NormalizerStep::Kind::kPrepend:
        if (!now.empty()) now.insert(0, step.data.content);
        break;
      case NormalizerStep::Kind::kByteSymbols: {
        std::string symbols;
        for (const char byte : now) symbols += byte_to_symbol(static_cast<std::uint8_t>(byte));
        now = std::move(symbols);
        break;
      }
    }
  }
  return result;
}

}  // namespace quire
