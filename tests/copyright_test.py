"""deploy/debian/copyright names everything that the program has in it, and each licence with its text.

    copyright_test.py
"""

import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "scripts"))
import make_page_libraries  # noqa: E402

COPYRIGHT = SOURCE / "deploy/debian/copyright"
# Of docs/dependencies.md: what is headers alone, and so compiled in.
HEADERS = ("libcli11-dev", "libxxhash-dev", "libboost1.81-dev")


def paragraphs():
    """[{field: value, ...}, ...], as the format 1.0 of such files has them."""
    result = []
    for text in re.split(r"\n{2,}", COPYRIGHT.read_text(encoding="utf-8").strip()):
        fields = {}
        for line in text.split("\n"):
            if line.startswith(" "):
                fields[name] += "\n" + line  # noqa: F821: a field comes first
                continue
            name, separator, value = line.partition(":")
            assert separator and re.fullmatch(r"[A-Z][A-Za-z-]+", name), f"no field: {line}"
            assert name not in fields, f"{name} twice: {text}"
            fields[name] = value.strip()
        result.append(fields)
    return result


class Copyright(unittest.TestCase):
    def setUp(self):
        self.header, *rest = paragraphs()
        self.files = [each for each in rest if "Files" in each]
        self.licences = [each for each in rest if "Files" not in each]

    def test_it_is_in_the_format(self):
        self.assertRegex(self.header["Format"], "copyright-format/1.0/$")
        self.assertEqual(self.files[0]["Files"], "*")
        for each in self.files:
            self.assertTrue(each["Copyright"] and each["License"], each)

    def test_each_licence_has_its_text(self):
        named = {each["License"] for each in self.files}
        given = [each["License"].partition("\n")[0] for each in self.licences]
        self.assertEqual(sorted(given), sorted(named))
        for each in self.licences:
            self.assertIn("\n", each["License"], "no text")

    def test_what_is_in_the_program_is_named(self):
        comments = " ".join(each.get("Comment", "") for each in self.files)
        packages = (*make_page_libraries.PACKAGES, *HEADERS)
        self.assertEqual([each for each in packages if not re.search(rf"package {re.escape(each)}\.", comments)], [])
        for package in HEADERS:
            self.assertIn(f"`{package}`", (SOURCE / "docs/dependencies.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
