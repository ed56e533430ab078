#!/usr/bin/env python3
"""Tests of check_links.py: what it refuses, and what it leaves alone."""

import pathlib
import tempfile
import unittest

import check_links


class TestCheckLinks(unittest.TestCase):
    def check(self, **files):
        """Problems of a repository with these files; `__` in a name is `/`, a name without a dot is Markdown."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            names = []
            for name, text in files.items():
                path = name.replace("__", "/") + ("" if "." in name else ".md")
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
                names.append(path)
            return check_links.check(root, names)

    def test_links_that_are_right(self):
        self.assertEqual(self.check(
            README="# Top\n[a](docs/a.md), [h](docs/a.md#the-second-one) ![p](docs/p.md 'title')\n"
                   "<img src=\"docs/p.md\"> [out](https://example.org/x#y) [self](#top) [![i](docs/p.md)](docs/a.md)\n",
            docs__a="# A\n## The `second` one\n[up](../README.md#top)\n", docs__p="# P\n"), [])

    def test_no_such_file(self):
        problems = self.check(README="\n[a](gone.md)\n")
        self.assertEqual(problems, ["README.md:2: gone.md: no such file"])

    def test_a_picture_in_a_link(self):
        problems = self.check(README="[![p](gone.png)](https://example.org)\n")
        self.assertEqual(problems, ["README.md:1: gone.png: no such file"])

    def test_html_and_definitions(self):
        problems = self.check(README="<img width=\"3\" src=\"gone.png\">\n\n[x]: gone.md\n")
        self.assertEqual(problems, ["README.md:1: gone.png: no such file", "README.md:3: gone.md: no such file"])

    def test_a_link_over_two_lines(self):
        problems = self.check(README="see [the\npage](gone.md) and\n")
        self.assertEqual(problems, ["README.md:1: gone.md: no such file"])

    def test_an_anchor_without_a_heading(self):
        problems = self.check(README="# One\n[a](#two)\n[b](other.md#one)\n", other="# Two\n")
        self.assertEqual(problems, ["README.md:2: #two: README.md has no heading with this anchor",
                                    "README.md:3: other.md#one: other.md has no heading with this anchor"])

    def test_headings_of_one_name_are_counted(self):
        self.assertEqual(self.check(README="# One\n# One\n[a](#one-1)\n"), [])
        self.assertEqual(len(self.check(README="# One\n[a](#one-1)\n")), 1)

    def test_a_heading_in_code_is_none(self):
        self.assertEqual(len(self.check(README="```\n# One\n```\n[a](#one)\n")), 1)

    def test_links_in_code_are_not_looked_at(self):
        self.assertEqual(self.check(README="`[a](gone.md)` ``[b](gone.md)``\n\n```sh\n[c](gone.md)\n```\n"), [])

    def test_a_fence_ends_where_it_ends(self):
        problems = self.check(README="````\n```\n[a](gone.md)\n````\n[b](gone.md)\n")
        self.assertEqual(problems, ["README.md:5: gone.md: no such file"])

    def test_a_folder_is_refused(self):
        problems = self.check(README="[a](docs/)\n[b](docs/a.md)\n", docs__a="# A\n")
        self.assertEqual(problems, ["README.md:1: docs/: is a folder; link its README.md"])

    def test_outside_and_absolute(self):
        problems = self.check(README="[a](../a.md) [b](/a.md)\n", a="# A\n")
        self.assertEqual(len(problems), 2)
        self.assertIn("no such file", problems[0])
        self.assertIn("begins at the host's root", problems[1])

    def test_a_page_that_nobody_links(self):
        problems = self.check(README="# Top\n", docs__a="[me](a.md)\n")
        self.assertEqual(problems, ["docs/a.md: no other page links it"])

    def test_names_with_an_escape(self):
        self.assertEqual(self.check(README="[a](a%20b.md)\n", **{"a b": "# A\n"}), [])


class TestAnchors(unittest.TestCase):
    def test_as_github_makes_them(self):
        text = ("# One step: `quire bench step`\n## Where a step's time goes\n### fp8, by BF16 dots\n"
                "## [A link](x.md) _in_ it\n")
        self.assertEqual(check_links.anchors(text), {"one-step-quire-bench-step", "where-a-steps-time-goes",
                                                     "fp8-by-bf16-dots", "a-link-_in_-it"})


if __name__ == "__main__":
    unittest.main()
