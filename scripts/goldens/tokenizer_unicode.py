"""src/text/unicode_tables.cpp: where the tokenizers library's Unicode facts are not utf8proc's.

The library asks several sources, each of another Unicode version: Oniguruma for regular expressions
(16.0), Rust's standard library for digits, white space and lower case (17.0), and old crates for
normalization (about 9.0) and for its own idea of punctuation (about 8.0). This script asks the library
itself about every code point, and utf8proc 2.8 (15.0) about its categories, and writes the differences.
"""

import ctypes
import pathlib

from tokenizers import Regex, normalizers, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "src" / "text" / "unicode_tables.cpp"
CODES = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
TEXT = "".join(map(chr, CODES))

# The bits of CharFlags (src/text/char_class.h).
(UPPER, LOWER, OTHER_LETTER, MARK, NUMBER, PUNCTUATION, SYMBOL, SPACE, NEWLINE, WORD, NUMERIC,
 PUNCTUATION_STEP, ACCENT, INERT) = (1 << i for i in range(14))
CATEGORIES = ["Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
              "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"]
WHITE_SPACE = {*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
               0x205F, 0x3000}

utf8proc = ctypes.CDLL("libutf8proc.so.2")


def flags_of_category(code, category):
    """What char_class.cpp derives from utf8proc's category; must stay equal to it."""
    bits = {"Lu": UPPER, "Lt": UPPER, "Ll": LOWER, "Lm": OTHER_LETTER, "Lo": OTHER_LETTER}.get(category, 0)
    bits |= {"M": MARK | ACCENT, "N": NUMBER | NUMERIC, "P": PUNCTUATION | PUNCTUATION_STEP,
             "S": SYMBOL}.get(category[0], 0)
    if category[0] in "LM" or category in ("Nd", "Nl", "Pc") or code in (0x200C, 0x200D):
        bits |= WORD
    if code < 0x80 and category[0] == "S":
        bits |= PUNCTUATION_STEP
    if code in WHITE_SPACE:
        bits |= SPACE
    if code in (10, 13):
        bits |= NEWLINE
    return bits


def matched(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return {ord(c) for piece, _ in split.pre_tokenize_str(TEXT) for c in piece}


def dropped(step):
    return set(CODES) - {ord(c) for piece, _ in step.pre_tokenize_str(TEXT) for c in piece}


def alone(step):
    """The characters that `step` cuts off on both sides, between hyphens that it does not."""
    found = set()
    for i in range(0, len(CODES), 50_000):
        text = "-" + "-".join(map(chr, CODES[i:i + 50_000])) + "-"
        found |= {ord(p) for p, _ in step.pre_tokenize_str(text) if len(p) == 1 and p != "-"}
    return found


def ranges(pairs):
    """[(code, value)] sorted by code -> [first, last, value]."""
    out = []
    for code, value in pairs:
        if out and out[-1][1] == code - 1 and out[-1][2] == value:
            out[-1][1] = code
        else:
            out.append([code, code, value])
    return out


def utf8proc_normal(code, options):
    """utf8proc's normal form of one character."""
    buffer = ctypes.c_char_p()
    text = chr(code).encode()
    utf8proc.utf8proc_map.restype = ctypes.c_ssize_t
    size = utf8proc.utf8proc_map(text, ctypes.c_ssize_t(len(text)), ctypes.byref(buffer), options)
    assert size >= 0
    return ctypes.string_at(buffer, size).decode()


def reference_flags():
    flags = dict.fromkeys(CODES, 0)

    def mark(codes, bit):
        for code in codes:
            flags[code] |= bit

    for pattern, bit in ((r"[\p{Lu}\p{Lt}]", UPPER), (r"\p{Ll}", LOWER), (r"[\p{Lm}\p{Lo}]", OTHER_LETTER),
                         (r"\p{M}", MARK), (r"\p{N}", NUMBER), (r"\p{P}", PUNCTUATION),
                         (r"\p{S}", SYMBOL), (r"\s", SPACE), (r"[\r\n]", NEWLINE)):
        mark(matched(pattern), bit)
    # \p{P} of Oniguruma includes nine ASCII symbols in some syntaxes; the table shows whether it does.
    mark(alone(pre_tokenizers.Whitespace()) | {ord("_")}, WORD)
    mark(alone(pre_tokenizers.Digits(individual_digits=True)), NUMERIC)
    mark(dropped(pre_tokenizers.Punctuation("removed")), PUNCTUATION_STEP)
    accents = normalizers.StripAccents()
    mark([c for c in CODES if accents.normalize_str("a" + chr(c)) == "a"], ACCENT)
    assert dropped(pre_tokenizers.WhitespaceSplit()) == WHITE_SPACE

    # Characters that normalization leaves alone because its tables are older than they are.
    STABLE, COMPAT, COMPOSE, DECOMPOSE = 1 << 1, 1 << 2, 1 << 3, 1 << 4
    for form, options in ((normalizers.NFC(), COMPOSE), (normalizers.NFD(), DECOMPOSE),
                          (normalizers.NFKC(), COMPOSE | COMPAT), (normalizers.NFKD(), DECOMPOSE | COMPAT)):
        for code in CODES:
            if code and form.normalize_str(chr(code)) != utf8proc_normal(code, options | STABLE):
                assert form.normalize_str(chr(code)) == chr(code), hex(code)
                flags[code] |= INERT
    # A mark whose combining class the reference does not know stays where it is: U+0301 moves before
    # or behind every mark of another class.
    nfd = normalizers.NFD()
    for code in CODES:
        if CATEGORIES[utf8proc.utf8proc_category(code)][0] != "M":
            continue
        for text in ("a" + chr(code) + "\u0327\u0301", "a\u0301\u0327" + chr(code)):
            mine = "".join(text)
            buffer = ctypes.c_char_p()
            raw = mine.encode()
            size = utf8proc.utf8proc_map(raw, ctypes.c_ssize_t(len(raw)), ctypes.byref(buffer),
                                         DECOMPOSE | STABLE)
            if nfd.normalize_str(text) != ctypes.string_at(buffer, size).decode():
                flags[code] |= INERT
    return flags


def lower_differences():
    lower = normalizers.Lowercase()
    utf8proc.utf8proc_tolower.restype = ctypes.c_int32
    for code in CODES:
        text = lower.normalize_str(chr(code))
        if text != chr(utf8proc.utf8proc_tolower(code)) and len(text) == 1:  # U+0130 is the other case
            yield code, ord(text) - code


def rows(table, width):
    cells = [f"{{0x{a:X}, 0x{b:X}, {value}}}," for a, b, value in table]
    return "\n".join("    " + " ".join(cells[i:i + width]) for i in range(0, len(cells), width))


def main():
    reference = reference_flags()
    assert utf8proc.utf8proc_category(0x1E4D0) != 0 and utf8proc.utf8proc_category(0x897) == 0, "not 15.0"
    differences = []
    for code in CODES:
        base = flags_of_category(code, CATEGORIES[utf8proc.utf8proc_category(code)])
        if base != reference[code]:
            differences.append((code, f"0x{reference[code]:X}"))
    flags, lower = ranges(differences), ranges(lower_differences())
    OUT.write_text(f"""// Written by scripts/goldens/tokenizer_unicode.py from what the tokenizers library answers for every
// code point: where its Unicode facts are not those that utf8proc 2.8 (Unicode 15.0) gives. Its
// regular expressions know Unicode 16.0, its digits 17.0, its normalization and its punctuation
// older ones.
#include "text/unicode_tables.h"

namespace quire {{

namespace {{

// clang-format off
constexpr CharFlagRange kFlagRanges[] = {{
{rows(flags, 4)}
}};

constexpr LowerCaseRange kLowerCaseRanges[] = {{
{rows(lower, 4)}
}};
// clang-format on

}}  // namespace

std::span<const CharFlagRange> char_flag_ranges() {{ return kFlagRanges; }}
std::span<const LowerCaseRange> lower_case_ranges() {{ return kLowerCaseRanges; }}

}}  // namespace quire
""", encoding="utf-8")
    print(f"{OUT.relative_to(ROOT)}: {len(flags)} and {len(lower)} ranges")


if __name__ == "__main__":
    main()
