"""What Python's idna package (RFC 5890 to 5893, Unicode 18.0) knows of labels of host names:
src/text/grammar/idna_tables.cpp, which has what utf8proc does not, and tests/data/a_labels.json, labels
with its verdict. They are of characters that Unicode 14.0 had, so that the versions do not matter."""

import json
import pathlib
import random
import unicodedata

import idna
import idna.idnadata

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLES = ROOT / "src" / "text" / "grammar" / "idna_tables.cpp"
LABELS = ROOT / "tests" / "data" / "a_labels.json"

ALPHABETS = ["abcdefghijklmnopqrstuvwxyz0123456789-", "äöüßéèçñåø", "αβγδεςάώ͵", "абвгдежзё", "שלוםאבג׳״ִ",
             "مرحبابالعالم٠١٢۰۱۲\u200c", "नमस्तेक्षत्रिय\u200d\u200c०१", "สวัสดีชาวโลก", "你好世界北京〇・", "こんにちは・ァー々",
             "안녕하세요세계", "l·l", "\u0301\u0323\u0903", "၀၁ကခ", "𞤀𞤢𞤣", "𠀀𠀁", "ＡＢ①Ω", "\u0640\u07fa\u302e", "🙂☃", "é̀ô"]


def ranges(codes):
    found = []
    for code in sorted(codes):
        if found and found[-1][1] + 1 == code:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def joined(table, keys):
    codes = set()
    for key in keys:
        for span in table[key]:
            codes |= set(range(span >> 32, span & 0xFFFFFFFF))
    return ranges(codes)


def table(name, found):
    cells = [f"{{0x{first:X}, 0x{last:X}}}," for first, last in found]
    rows = "\n".join("    " + " ".join(cells[i:i + 5]) for i in range(0, len(cells), 5))
    return f"constexpr CharRange {name}[] = {{\n{rows}\n}};\n"


def write_tables():
    joining, scripts = idna.idnadata.joining_types, idna.idnadata.scripts
    tables = [("joins_next", "kJoinsNext", joined(joining, "LD")),
              ("joins_previous", "kJoinsPrevious", joined(joining, "RD")),
              ("script_greek", "kGreek", joined(scripts, ["Greek"])),
              ("script_hebrew", "kHebrew", joined(scripts, ["Hebrew"])),
              ("script_of_japanese", "kOfJapanese", joined(scripts, ["Han", "Hiragana", "Katakana"]))]
    text = "\n".join(table(constant, found) for _, constant, found in tables)
    functions = "\n".join(f"std::span<const CharRange> {name}() {{ return {constant}; }}"
                          for name, constant, _ in tables)
    TABLES.write_text(f"""// Written by scripts/goldens/host_names.py from the data of Python's idna package
// (Unicode {idna.idnadata.__version__}).
#include "text/grammar/idna_tables.h"

namespace quire {{
namespace {{

// clang-format off
{text}// clang-format on

}}  // namespace

{functions}

}}  // namespace quire
""", encoding="utf-8")


def known(label):
    return all(unicodedata.category(c) != "Cn" for c in label)


def verdict(a_label):
    """The U-label, or None."""
    try:
        label = idna.ulabel(a_label)
        return label if idna.alabel(label).decode() == a_label.lower() else None
    except (idna.IDNAError, UnicodeError):
        return None


def candidates(rng):
    while True:
        letters = "".join(rng.sample(ALPHABETS, rng.choice([1, 1, 1, 2, 2, 3])))
        label = "".join(rng.choice(letters) for _ in range(rng.randint(1, 14)))
        if rng.random() < 0.7:
            label = unicodedata.normalize("NFC", label)
        text = label.encode("punycode").decode()
        if rng.random() < 0.2:
            place = rng.randrange(len(text))
            text = text[:place] + rng.choice("abcxyz0123456789-") + text[place + rng.randint(0, 1):]
        if rng.random() < 0.1:
            text = text.upper()
        if len(text) <= 52:
            yield "xn--" + text


def decoded(a_label):
    try:
        return a_label[4:].lower().encode().decode("punycode")
    except (UnicodeError, ValueError, OverflowError):
        return ""


def write_labels():
    rng = random.Random(28)
    valid, invalid = {}, {}
    for label in candidates(rng):
        if not known(decoded(label)):
            continue
        meant = verdict(label)
        side = invalid if meant is None else valid
        if len(side) < 250:
            side[label] = meant
        if len(valid) == len(invalid) == 250:
            break
    rows = [json.dumps([label, meant], ensure_ascii=True) for label, meant in (valid | invalid).items()]
    LABELS.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    write_tables()
    write_labels()
