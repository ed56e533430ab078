#include "text/grammar/idna.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include <utf8proc.h>

#include "text/grammar/idna_tables.h"

namespace quire {
namespace {

constexpr char32_t kJoiner = 0x200D;
constexpr char32_t kNonJoiner = 0x200C;
constexpr utf8proc_propval_t kVirama = 9;  // Canonical_Combining_Class

const utf8proc_property_t& property_of(char32_t code) {
  return *utf8proc_get_property(static_cast<utf8proc_int32_t>(code));
}

bool is_one_of(std::span<const CharRange> ranges, char32_t code) {
  const auto behind = std::ranges::upper_bound(ranges, code, {}, &CharRange::first);
  return behind != ranges.begin() && code <= (behind - 1)->last;
}

bool is_arabic_indic_digit(char32_t code) { return code >= 0x660 && code <= 0x669; }
bool is_extended_digit(char32_t code) { return code >= 0x6F0 && code <= 0x6F9; }

// The text in a normal form, by utf8proc's options.
std::string mapped(std::u32string_view text, int options) {
  std::string bytes;
  for (const char32_t code : text) {
    std::array<utf8proc_uint8_t, 4> buffer;
    const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), buffer.data());
    bytes.append(reinterpret_cast<const char*>(buffer.data()), static_cast<std::size_t>(size));
  }
  if (options == 0) return bytes;
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()),
      static_cast<utf8proc_ssize_t>(bytes.size()), &out, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(out, &std::free);
  if (size < 0) return {};
  return {reinterpret_cast<const char*>(out), static_cast<std::size_t>(size)};
}

// RFC 5892, section 2.2: normalizing and folding change it.
bool is_unstable(char32_t code, const utf8proc_property_t& property) {
  constexpr std::uint16_t kNoSequence = UINT16_MAX;
  const bool stays =
      property.decomp_seqindex == kNoSequence && property.casefold_seqindex == kNoSequence;
  if (stays) return false;
  const std::u32string_view text(&code, 1);
  return mapped(text, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT | UTF8PROC_CASEFOLD) !=
         mapped(text, 0);
}

// Section 2.5.
bool is_of_ignorable_block(char32_t code) {
  return (code >= 0x20D0 && code <= 0x20FF) || (code >= 0x1D100 && code <= 0x1D1FF) ||
         (code >= 0x1D200 && code <= 0x1D24F);
}

// Section 2.6, of those that would be allowed by the other rules, and the other way round.
constexpr std::array<char32_t, 6> kAlsoValid = {0xDF, 0x3C2, 0x6FD, 0x6FE, 0xF0B, 0x3007};
constexpr std::array<char32_t, 10> kAlsoDisallowed = {0x640,  0x7FA,  0x302E, 0x302F, 0x3031,
                                                      0x3032, 0x3033, 0x3034, 0x3035, 0x303B};

// Section 3: PVALID. Those with a rule for their place are not among them.
bool is_valid_anywhere(char32_t code) {
  if (code < 0x80) {
    return code == '-' || (code >= 'a' && code <= 'z') || (code >= '0' && code <= '9');
  }
  if (std::ranges::find(kAlsoValid, code) != kAlsoValid.end()) return true;
  if (std::ranges::find(kAlsoDisallowed, code) != kAlsoDisallowed.end()) return false;
  const utf8proc_property_t& property = property_of(code);
  switch (property.category) {
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
      break;
    default:  // capital letters change when folded
      return false;
  }
  const bool old_jamo = property.boundclass == UTF8PROC_BOUNDCLASS_L ||
                        property.boundclass == UTF8PROC_BOUNDCLASS_V ||
                        property.boundclass == UTF8PROC_BOUNDCLASS_T;
  return !old_jamo && !property.ignorable && !is_of_ignorable_block(code) &&
         !is_unstable(code, property);
}

bool is_joined_by_virama(std::u32string_view label, std::size_t at) {
  return at > 0 && property_of(label[at - 1]).combining_class == kVirama;
}

bool is_transparent(char32_t code) {
  const utf8proc_propval_t category = property_of(code).category;
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
         (category == UTF8PROC_CATEGORY_CF && code != kNonJoiner && code != kJoiner);
}

// Appendix A.1: between letters that join each other but for what stands between them.
bool separates_joining_letters(std::u32string_view label, std::size_t at) {
  std::size_t before = at;
  while (before > 0 && is_transparent(label[before - 1])) --before;
  std::size_t behind = at + 1;
  while (behind < label.size() && is_transparent(label[behind])) ++behind;
  return before > 0 && behind < label.size() && is_one_of(joins_next(), label[before - 1]) &&
         is_one_of(joins_previous(), label[behind]);
}

// Appendix A; false for what has no rule.
bool keeps_rule_of_place(std::u32string_view label, std::size_t at) {
  const char32_t code = label[at];
  const char32_t before = at > 0 ? label[at - 1] : 0;
  const char32_t behind = at + 1 < label.size() ? label[at + 1] : 0;
  if (code == kJoiner) return is_joined_by_virama(label, at);
  if (code == kNonJoiner) {
    return is_joined_by_virama(label, at) || separates_joining_letters(label, at);
  }
  if (code == 0xB7) return before == 'l' && behind == 'l';
  if (code == 0x375) return is_one_of(script_greek(), behind);
  if (code == 0x5F3 || code == 0x5F4) return is_one_of(script_hebrew(), before);
  if (code == 0x30FB) {
    return std::ranges::any_of(label,
                               [](char32_t c) { return is_one_of(script_of_japanese(), c); });
  }
  if (is_arabic_indic_digit(code)) return std::ranges::none_of(label, is_extended_digit);
  if (is_extended_digit(code)) return std::ranges::none_of(label, is_arabic_indic_digit);
  return false;
}

// RFC 5893, section 2.
std::optional<LabelDirection> direction_of(std::u32string_view label) {
  std::uint32_t classes = 0;
  utf8proc_propval_t last = 0;  // that is no mark
  const auto bit = [](unsigned bidi_class) { return std::uint32_t{1} << bidi_class; };
  for (const char32_t code : label) {
    const utf8proc_propval_t bidi_class = property_of(code).bidi_class;
    classes |= bit(bidi_class);
    if (bidi_class != UTF8PROC_BIDI_CLASS_NSM) last = bidi_class;
  }
  const std::uint32_t letters = bit(UTF8PROC_BIDI_CLASS_R) | bit(UTF8PROC_BIDI_CLASS_AL);
  const std::uint32_t numbers = bit(UTF8PROC_BIDI_CLASS_EN);
  const std::uint32_t arabic_numbers = bit(UTF8PROC_BIDI_CLASS_AN);
  const std::uint32_t both = numbers | bit(UTF8PROC_BIDI_CLASS_ES) | bit(UTF8PROC_BIDI_CLASS_CS) |
                             bit(UTF8PROC_BIDI_CLASS_ET) | bit(UTF8PROC_BIDI_CLASS_ON) |
                             bit(UTF8PROC_BIDI_CLASS_BN) | bit(UTF8PROC_BIDI_CLASS_NSM);
  const std::uint32_t left = bit(UTF8PROC_BIDI_CLASS_L);
  const std::uint32_t first = bit(property_of(label[0]).bidi_class);
  if ((classes & (letters | arabic_numbers)) == 0) {
    const bool ruled =
        first == left && (classes & ~(left | both)) == 0 && (bit(last) & (left | numbers)) != 0;
    return ruled ? LabelDirection::kLeftToRight : LabelDirection::kUnruly;
  }
  const bool ruled = (first & letters) != 0 &&
                     (classes & ~(letters | arabic_numbers | both)) == 0 &&
                     (bit(last) & (letters | numbers | arabic_numbers)) != 0 &&
                     ((classes & numbers) == 0 || (classes & arabic_numbers) == 0);
  if (!ruled) return std::nullopt;
  return LabelDirection::kRightToLeft;
}

bool is_mark(char32_t code) {
  const utf8proc_propval_t category = property_of(code).category;
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

}  // namespace

std::optional<LabelDirection> check_u_label(std::u32string_view label) {
  if (label.empty() || label.front() == '-' || label.back() == '-') return std::nullopt;
  if (label.size() > 3 && label[2] == '-' && label[3] == '-') return std::nullopt;
  for (std::size_t i = 0; i < label.size(); ++i) {
    if (!is_valid_anywhere(label[i]) && !keeps_rule_of_place(label, i)) return std::nullopt;
  }
  if (is_mark(label.front())) return std::nullopt;
  if (std::ranges::none_of(label, [](char32_t code) { return code >= 0x80; })) return std::nullopt;
  const std::optional<LabelDirection> direction = direction_of(label);
  if (!direction || mapped(label, UTF8PROC_STABLE | UTF8PROC_COMPOSE) != mapped(label, 0)) {
    return std::nullopt;
  }
  return direction;
}

}  // namespace quire
