#include "text/grammar/json_schema_formats.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <string>

#include <fmt/format.h>

#include "text/grammar/fixed_dfa.h"
#include "text/grammar/host_names.h"
#include "text/grammar/json_schema_escapes.h"
#include "text/grammar/regex.h"

namespace quire {
namespace {

// Pieces of regular expressions. Digits of fractions and durations are bounded, so that they end.
constexpr std::string_view kMonthAndDay =
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
    "02-(0[1-9]|1[0-9]|2[0-8]))";
constexpr std::string_view kLeapYear =
    "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)";
constexpr std::string_view kOffset = "([Zz]|[-+]([01][0-9]|2[0-3]):[0-5][0-9])";
constexpr std::string_view kSecondsFraction = "(\\.[0-9]{1,18})?";
constexpr std::string_view kOctet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
constexpr std::string_view kLabel = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
// RFC 3987's ucschar, in the Basic Multilingual Plane and beyond.
constexpr std::string_view kUcs =
    "\\u{A0}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFEF}\\u{10000}-\\u{1FFFD}\\u{20000}-"
    "\\u{2FFFD}\\u{30000}-\\u{3FFFD}\\u{40000}-\\u{4FFFD}\\u{50000}-\\u{5FFFD}\\u{60000}-"
    "\\u{6FFFD}\\u{70000}-\\u{7FFFD}\\u{80000}-\\u{8FFFD}\\u{90000}-\\u{9FFFD}\\u{A0000}-"
    "\\u{AFFFD}\\u{B0000}-\\u{BFFFD}\\u{C0000}-\\u{CFFFD}\\u{D0000}-\\u{DFFFD}\\u{E1000}-"
    "\\u{EFFFD}";
constexpr std::string_view kPrivate =
    "\\u{E000}-\\u{F8FF}\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}";

std::string date_pattern() {
  return fmt::format("([0-9]{{4}}-{}|{}-02-29)", kMonthAndDay, kLeapYear);
}

// Second 60 where it is 23:59 in UTC: for offsets of whole and half hours. The time has to be
// remembered up to the offset, so that its fraction is short.
std::string leap_second_pattern() {
  constexpr std::string_view kShortFraction = "(\\.[0-9]{1,3})?";
  std::string pattern = fmt::format("23:59:60{}([Zz]|[-+]00:00)", kShortFraction);
  for (int hour = 0; hour < 24; ++hour) {
    const int east = (hour + 1) % 24;  // so far ahead of UTC, it is hour:59 there
    const int west = 23 - hour;
    if (east != 0) {
      pattern +=
          fmt::format("|{:02}:59:60{}(\\+{:02}:00|-{:02}:00)", hour, kShortFraction, east, west);
    }
    pattern +=
        fmt::format("|{:02}:29:60{}(\\+{:02}:30|-{:02}:30)", hour, kShortFraction, hour, west);
  }
  return pattern;
}

std::string time_pattern() {
  return fmt::format("(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]{}{}|{})", kSecondsFraction, kOffset,
                     leap_second_pattern());
}

// With fractions of any length, and leap seconds for offsets of any minute.
std::string any_time_pattern() {
  constexpr int kMinutesOfDay = 24 * 60;
  std::string pattern =
      fmt::format("(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?{}", kOffset);
  for (int minute = 0; minute < kMinutesOfDay; ++minute) {
    const int east = (minute + 1) % kMinutesOfDay;  // so far ahead of UTC, it is 23:59 there
    const int west = (kMinutesOfDay - east) % kMinutesOfDay;
    pattern += fmt::format("|{:02}:{:02}:60(\\.[0-9]+)?({}\\+{:02}:{:02}|-{:02}:{:02})",
                           minute / 60, minute % 60, east == 0 ? "[Zz]|" : "", east / 60, east % 60,
                           west / 60, west % 60);
  }
  return pattern + ")";
}

// Numbers of `digits`.
std::string duration_pattern(std::string_view digits) {
  const std::string time = fmt::format("T({0}H({0}M({0}S)?)?|{0}M({0}S)?|{0}S)", digits);
  const std::string date = fmt::format("({0}D|{0}M({0}D)?|{0}Y({0}M({0}D)?)?)", digits);
  return fmt::format("P({}W|{}({})?|{})", digits, date, time, time);
}

std::string ipv4_pattern() { return fmt::format("{0}(\\.{0}){{3}}", kOctet); }

std::string ipv6_pattern() {
  constexpr std::string_view kGroup = "[0-9A-Fa-f]{1,4}";
  const std::string last = fmt::format("({0}:{0}|{1})", kGroup, ipv4_pattern());
  std::string pattern = fmt::format("({}:){{6}}{}", kGroup, last);
  pattern += fmt::format("|::({}:){{5}}{}", kGroup, last);
  for (int before = 0; before < 5; ++before) {
    // At most before + 1 groups, "::", 4 - before groups and the last two.
    pattern +=
        fmt::format("|(({0}:){{0,{1}}}{0})?::({0}:){{{2}}}{3}", kGroup, before, 4 - before, last);
  }
  pattern += fmt::format("|(({0}:){{0,5}}{0})?::{0}|(({0}:){{0,6}}{0})?::", kGroup);
  return fmt::format("({})", pattern);
}

std::string email_pattern(bool international) {
  const std::string_view more = international ? "\\u{80}-\\u{10FFFF}" : "";
  const std::string atom = fmt::format("[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{}-]", more);
  const std::string quoted = fmt::format("\"([ !#-\\[\\]-~{}]|\\\\[ -~])*\"", more);
  constexpr std::string_view kLetters = "A-Za-z0-9\\p{L}\\p{M}\\p{N}";
  const std::string label =
      international ? fmt::format("[{0}]([{0}-]*[{0}])?", kLetters) : std::string(kLabel);
  return fmt::format("({0}+(\\.{0}+)*|{1})@({2}(\\.{2})*|\\[({3}|IPv6:{4})\\])", atom, quoted,
                     label, ipv4_pattern(), ipv6_pattern());
}

struct UriPieces {
  std::string path_character, query_character, user_character, name_character;
};

UriPieces uri_pieces(bool international) {
  const std::string_view more = international ? kUcs : std::string_view();
  constexpr std::string_view kEscape = "%[0-9A-Fa-f]{2}";
  const auto piece = [&](std::string_view set, std::string_view private_use) {
    return fmt::format("([A-Za-z0-9._~!$&'()*+,;={}{}{}-]|{})", set, more, private_use, kEscape);
  };
  return {piece(":@", ""), piece(":@/?", international ? kPrivate : std::string_view()),
          piece(":", ""), piece("", "")};
}

// With a scheme, or (a reference) without one too.
std::string uri_pattern(bool international, bool reference) {
  const UriPieces pieces = uri_pieces(international);
  const std::string authority = fmt::format(
      "({}*@)?(\\[({}|[Vv][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]|{}*)(:[0-9]*)?",
      pieces.user_character, ipv6_pattern(), pieces.name_character);
  const std::string& p = pieces.path_character;
  const std::string rooted = fmt::format("//{}(/{}*)*|/({}+(/{}*)*)?", authority, p, p, p);
  const std::string fragment = fmt::format("({}|[/?])", p);
  const std::string query_and_fragment =
      fmt::format("(\\?{}*)?(#{}*)?", pieces.query_character, fragment);
  const std::string full =
      fmt::format("[A-Za-z][A-Za-z0-9+.-]*:({}|{}+(/{}*)*)?{}", rooted, p, p, query_and_fragment);
  if (!reference) return full;
  std::string no_colon = p;
  no_colon.erase(no_colon.find(":@"), 1);
  return fmt::format("({}|({}|{}+(/{}*)*)?{})", full, rooted, no_colon, p, query_and_fragment);
}

std::string uri_template_pattern() {
  const std::string literal =
      fmt::format("([!#$&-;=?-\\[\\]_a-z~{}{}]|%[0-9A-Fa-f]{{2}})", kUcs, kPrivate);
  constexpr std::string_view kName =
      "([A-Za-z0-9_]|%[0-9A-Fa-f]{2})(\\.?([A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*";
  const std::string variable = fmt::format("{}(:[1-9][0-9]{{0,3}}|\\*)?", kName);
  return fmt::format("({0}|\\{{[+#./;?&=,!@|]?{1}(,{1})*\\}})*", literal, variable);
}

// A group whose name is a letter, then references to it among letters and digits: "(?<n>a)\k<n>".
// The name has to be remembered, so that more would need many times the states.
std::string back_reference_pattern() {
  std::string pattern;
  for (char name = 'a'; name <= 'z'; ++name) {
    pattern += fmt::format("|\\(\\?<{0}>[A-Za-z0-9]*\\)([A-Za-z0-9]|\\\\k<{0}>)*", name);
  }
  return pattern.substr(1);
}

// Regular expressions whose groups nest at most three deep, one of which at most has a name (two of
// one name are an error): not all, but nothing else.
std::string regex_pattern() {
  constexpr std::string_view kClassItem = "([^\\[\\]\\\\^-]|\\\\[dDwWsSnrtfv\\[\\]\\\\^.*+?-])";
  const std::string simple = fmt::format(
      "([^()\\[\\]{{}}*+?|^$\\\\/]|\\\\[dDwWsSnrtfv.*+?^$(){{}}|\\[\\]\\\\/]|\\\\c[A-Za-z]|"
      "\\\\u[0-9A-Fa-f]{{4}}|\\\\x[0-9A-Fa-f]{{2}}|\\[\\^?{}*\\])",
      kClassItem);
  constexpr std::string_view kRepeat = "([*+?][?]{0,1}|\\{[0-9]{1,3},?\\}[?]{0,1})?";
  constexpr std::string_view kName = "\\?<[A-Za-z_$][A-Za-z0-9_$]*>";
  std::string atom = fmt::format("({}{}|\\^|\\$|\\\\[bB])", simple, kRepeat);
  std::string expression;
  std::string inside;  // of the outermost groups
  for (int depth = 0; depth < 4; ++depth) {
    inside = expression;
    expression = fmt::format("({0})*(\\|({0})*)*", atom);
    atom = fmt::format("({0}{1}|\\^|\\$|\\\\[bB]|\\((\\?:)?{2}\\){1}|\\(\\?<?[=!]{2}\\))", simple,
                       kRepeat, expression);
  }
  return fmt::format("({0}(\\({1}{2}\\){3}{0})?|{4})", expression, kName, inside, kRepeat,
                     back_reference_pattern());
}

std::string hostname_pattern() { return fmt::format("{0}(\\.{0})*", kLabel); }

struct KnownFormat {
  std::string_view name;
  std::string (*pattern)();
  // What is valid, or may be to some validator, where the pattern leaves some of it out.
  std::string (*all)() = nullptr;
};
constexpr auto kKnownFormats = std::to_array<KnownFormat>({
    // No year 0, which validators do not know.
    {"date", [] { return "(?!0000)" + date_pattern(); }, date_pattern},
    {"time", time_pattern, any_time_pattern},
    {"date-time", [] { return fmt::format("(?!0000){}[Tt]{}", date_pattern(), time_pattern()); },
     [] { return fmt::format("{}[Tt]{}", date_pattern(), any_time_pattern()); }},
    {"duration", [] { return duration_pattern("[0-9]{1,90}"); },
     [] { return duration_pattern("[0-9]+"); }},
    {"email", [] { return email_pattern(false); }},
    {"idn-email", [] { return email_pattern(true); }},
    {"hostname", hostname_pattern},
    {"ipv4", ipv4_pattern},
    {"ipv6", ipv6_pattern},
    {"uri", [] { return uri_pattern(false, false); }},
    {"uri-reference", [] { return uri_pattern(false, true); }},
    {"iri", [] { return uri_pattern(true, false); }},
    {"iri-reference", [] { return uri_pattern(true, true); }},
    {"uri-template", uri_template_pattern},
    {"uuid", [] { return std::string("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"); }},
    {"json-pointer", [] { return std::string("(/([^~/]|~[01])*)*"); }},
    {"relative-json-pointer",
     [] { return std::string("(0|[1-9][0-9]{0,17})(#|(/([^~/]|~[01])*)*)"); },
     [] { return std::string("(0|[1-9][0-9]*)(#|(/([^~/]|~[01])*)*)"); }},
    {"regex", regex_pattern},
});

Result<Dfa> language_of_format(const KnownFormat& format, GrammarBudget& budget) {
  QUIRE_ASSIGN_OR_RETURN(Dfa dfa, regex_to_dfa(format.pattern(), RegexOptions(), budget));
  if (format.name == "hostname") {
    // A-labels come besides; other labels with hyphens there are reserved (RFC 5890, 2.3.1).
    QUIRE_ASSIGN_OR_RETURN(const Dfa reserved,
                           regex_to_dfa("(.*\\.)?[^.]{2}--.*", RegexOptions(), budget));
    QUIRE_ASSIGN_OR_RETURN(dfa, dfa_difference(dfa, reserved, budget));
    QUIRE_ASSIGN_OR_RETURN(const Dfa length,
                           regex_to_dfa("[A-Za-z0-9.-]{1,253}", RegexOptions(), budget));
    QUIRE_ASSIGN_OR_RETURN(dfa, dfa_intersect(dfa, length, budget));
  }
  return dfa;
}

// With A-labels, valid or not.
constexpr std::string_view kALabelNames =
    "([A-Za-z0-9-]+\\.)*[Xx][Nn]--[A-Za-z0-9-]+(\\.[A-Za-z0-9-]+)*";

OpenTexts open_host_names() {
  OpenTexts texts;
  texts.automaton = host_names();
  texts.around = std::make_shared<const TextsAround>([]() -> Result<Dfa> {
    return fixed_dfa(
        [](GrammarBudget& budget) { return regex_to_dfa(kALabelNames, RegexOptions(), budget); });
  });
  texts.max_length = 253;
  return texts;
}

FormatLanguage make_format(const KnownFormat& format) {
  FormatLanguage made;
  made.meant = std::make_shared<const DfaOnDemand>([&format] {
    return fixed_dfa([&](GrammarBudget& budget) { return language_of_format(format, budget); });
  });
  if (format.name == "hostname") {
    made.more = open_host_names();
    made.spelled = made.meant;  // letters, digits, hyphens and dots are spelled as they are
  } else {
    made.spelled = std::make_shared<const DfaOnDemand>([meant = made.meant] {
      return fixed_dfa([&](GrammarBudget& budget) { return json_spellings(meant->get(), budget); });
    });
  }
  if (format.all != nullptr) {
    const auto left_out = [all = format.all, meant = made.meant](GrammarBudget& budget) {
      return dfa_difference(regex_to_dfa(all(), RegexOptions(), budget).value(), meant->get(),
                            budget);
    };
    made.more.around = std::make_shared<const TextsAround>(
        [left_out]() -> Result<Dfa> { return fixed_dfa(left_out); });
  }
  made.is_partial = format.name == "regex";
  return made;
}

}  // namespace

Result<std::optional<FormatLanguage>> schema_format(std::string_view name) {
  static std::array<std::once_flag, kKnownFormats.size()> made;
  static std::array<FormatLanguage, kKnownFormats.size()> languages;
  if (name == "idn-hostname") {
    return Status::unimplemented("idn-hostname is not supported", "use hostname, or a pattern");
  }
  const auto found = std::ranges::find(kKnownFormats, name, &KnownFormat::name);
  if (found == kKnownFormats.end()) return std::optional<FormatLanguage>();
  const auto index = static_cast<std::size_t>(found - kKnownFormats.begin());
  std::call_once(made[index], [&] { languages[index] = make_format(*found); });
  return std::optional(languages[index]);
}

}  // namespace quire
