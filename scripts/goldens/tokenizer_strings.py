"""The strings that tokenizers are compared on: many scripts, code, white space, control characters.

The same 5,200 strings whatever the Python version: the random numbers are SplitMix64's.
"""

SCRIPTS = {
    "latin": "The quick brown fox jumps over the lazy dog; don't WE'LL I've can’t naïve façade Straße ĳ ŒUVRE",
    "korean": "안녕하세요 세계! 토크나이저는 한국어 문장을 잘 나눠야 합니다. ㅋㅋㅋ 각각",
    "chinese": "你好，世界！我们今天去北京大学图书馆看书，天气很好。繁體中文測試「引號」〇一二三",
    "japanese": "こんにちは世界。カタカナとひらがな、漢字まじりの文章です。ｶﾅ ゞ々",
    "arabic": "مرحبا بالعالم، كيف حالك اليوم؟ العَرَبِيَّة ١٢٣٤٥ ـــ ﷺ",
    "hebrew": "שלום עולם, מה שלומך? עִבְרִית",
    "thai": "สวัสดีชาวโลก ภาษาไทยไม่มีการเว้นวรรคระหว่างคำ ๑๒๓ น้ำ",
    "devanagari": "नमस्ते दुनिया, यह हिन्दी है। क्षत्रिय ज्ञान ३४५ कि़",
    "tamil": "வணக்கம் உலகம் தமிழ் மொழி ௧௨௩",
    "cyrillic": "Привет, мир! Съешь ещё этих мягких французских булок ЁЖ ѣ",
    "greek": "Γειά σου Κόσμε, ΑΒΓΔ ἄνθρωπος ὦ ᾳ ΐ",
    "vietnamese": "Xin chào thế giới, tiếng Việt có dấu: ự ễ ộ ứ",
    "georgian": "გამარჯობა მსოფლიო ᲒᲐ Ꙁ Ა",
    "emoji": "🙂👍🏽👩‍👩‍👧‍👦🏳️‍🌈🇰🇷🇺🇳❤️‍🔥1️⃣🧑🏿‍🚀☺︎⌚️🫠",
    "math": "∑∫√∞≠≤≥±×÷∂∇ℝℂ𝔄𝒜𝟙𝟚𝐱² x³ ½ ¾ Ⅷ ⅻ ① ⓐ Ⓩ ㊿ ㎏ ㏒ ﬁ ﬃ",
    "symbols": "€£¥₿©®™§¶†‡•…—–‘’“”«»‹›¡¿°¬¦ `´¨^~ $+<=>|",
}
CODE = [
    "def f(x, *args, **kw):\n    return [x_i ** 2 for x_i in args if x_i != None]\n",
    "#include <vector>\nint main() { std::vector<int> v{1, 2, 3}; return v[0] == 1 ? 0 : -1; }\n",
    "SELECT name, COUNT(*) FROM users WHERE age >= 21 AND name LIKE 'O''Brien%' GROUP BY 1;",
    "\tif (a && !b || c ^ ~d) {\r\n\t\tprintf(\"%5.2f\\n\", 3.14159e-10);\r\n\t}\r\n",
    "{\"key\": [1, 2.5, null, true], \"nested\": {\"a\\u00e9\": \"\\\\n\"}}",
    "https://example.com/path?q=1&r=%20x#frag user@mail.org 192.168.0.1:8080 C:\\dir\\file.txt",
    "for i in $(seq 1 10); do echo \"$i\" >> /tmp/x; done # comment",
    "fn main() -> Result<(), Box<dyn Error>> { let s = r#\"raw\"#; Ok(()) } // ////",
    "<div class=\"a b\"><!-- c --><p>&nbsp;&amp;</p></div>\n\n\n<br/>",
    "x=1;y=22;z=333;w=4444;v=55555;u=666666;1234567890123 0x1F 1_000 1,000.50",
]
SPACES = [" ", "  ", "   ", "        ", "\t", "\t\t", "\n", "\n\n", "\n\n\n", "\r\n", "\r", " \n", "\n ", " \t\n ",
          "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085", "\u200b", "\u1680", "\v", "\f", "\u180e", " \u00a0 "]
CONTROLS = ["\x00", "\x01", "\x07", "\x1b[31m", "\x7f", "\x80", "\x9f", "\ufeff", "\u200c", "\u200d", "\u200e",
            "\u202e", "\ufffd", "\ufffe", "\U000e0041", "\ue000", "\u0301", "\u0327\u0301", "\u20dd", "\ufe0f"]
AFFIXES = ["'s", "'S", "'t", "'T", "'re", "'RE", "'Ve", "'m", "'ll", "'LL", "'d", "'x", "'ſ", "’s", "''", "'",
           "a\u0301", "\u1100\u1161\u11a8", "é", "e\u0301", "İ", "ı", "K", "Å", "ſ", "ß", "Ⅳ", "²", "\u0660",
           "▁", "▁▁", "<s>", "</s>", "<unk>", "<0x41>", "[MASK]", "[MASK] ", " [SEP]", "<|user|>", "<|sp|>",
           "Word", "word", "WORD", "camelCase", "XMLHttp", "iPhone", "ABCdef", "Ġ", "Ċ", "ÃÂ", "<extra>", "ǅ",
           "ᾈ", "ʰ", "ª", "ªB", "中A", "中a", "A中", "1a", "a1", "1.", ".1", "$1", "#x", "//", "/*", "*/", "///\n"]
# Assigned after the Unicode versions of some tables, before those of others.
YOUNG = ["\u0897", "\u1c89\u1c8a", "\ua7cb", "\ua7dc", "\U00010d40\U00010d41", "\U00010d50\U00010d70",
         "\U000105c0", "\U0001e4ec", "\U00011f02", "\u32ff", "\ua7f2", "\U00010781", "\U0001fae9", "\u2e5d",
         "\U00011938", "\u1715", "\u09fe", "\U0001fbf0", "\U00011de0", "\u24b6", "\U0001f130", "\u0c3c\u0301"]


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        return z ^ (z >> 31)

    def below(self, count):
        return self.bits() % count

    def of(self, items):
        return items[self.below(len(items))]


def scalar(random):
    """Any Unicode scalar value, mostly assigned ones."""
    limit = random.of([0x80, 0x250, 0x3000, 0x10000, 0x20000, 0x110000])
    code = random.below(limit)
    return chr(code) if not 0xD800 <= code <= 0xDFFF else "\ufffd"


def slice_of(random, text):
    begin = random.below(len(text))
    return text[begin:begin + 1 + random.below(12)]


def piece(random):
    kind = random.below(16)
    if kind < 5:
        return slice_of(random, random.of(list(SCRIPTS.values())))
    if kind < 7:
        return slice_of(random, random.of(CODE))
    if kind < 10:
        return random.of(SPACES)
    if kind < 12:
        return random.of(AFFIXES)
    if kind == 12:
        return random.of(CONTROLS)
    if kind == 13:
        return str(random.below(10 ** (1 + random.below(9))))
    if kind == 14:
        return random.of(YOUNG)
    return scalar(random)


def strings():
    """All 5,200 in order."""
    out = ["", *SCRIPTS.values(), *CODE, *SPACES, *CONTROLS, *AFFIXES, *YOUNG]
    random = Random(20260401)
    while len(out) < 1200:  # one script or program, with white space put in
        text = random.of(list(SCRIPTS.values()) + CODE)
        begin = random.below(len(text))
        text = text[begin:begin + 5 + random.below(40)]
        at = random.below(len(text) + 1)
        out.append(text[:at] + random.of(SPACES) + text[at:])
    while len(out) < 5200:
        out.append("".join(piece(random) for _ in range(1 + random.below(8))))
    return out


if __name__ == "__main__":
    texts = strings()
    print(len(texts), sum(len(t.encode()) for t in texts))
