#!/usr/bin/env python3
"""Checks the links of the repository's Markdown, without a network.

    scripts/check_links.py [ROOT]

A relative link has to name a file of the repository (a folder's README.md, not the folder), and behind
`#` a heading of it, by the anchor that GitHub and the site of `make docs` give it. Every page of docs/ has
to be linked from another. Addresses of other hosts are not looked at, nor is what stands in code.
"""

import pathlib
import re
import subprocess
import sys
import urllib.parse

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
INLINE = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^\s()<>]+(?:\([^\s()]*\)[^\s()<>]*)*)>?(?:\s+[\"'][^)]*)?\s*\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)")
HTML = re.compile(r"<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=\"([^\"]+)\"", re.IGNORECASE)
HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")
NESTED = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")  # a link in a link, or in a heading


def prose(text):
    """(number, line) of the lines outside of fenced code."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if fence is not None:
            if mark and mark[1].startswith(fence) and not line.strip(" `~"):
                fence = None
        elif mark:
            fence = mark[1]
        else:
            yield number, line


def targets(text):
    """(number, target) of each link and image, in links too."""
    lines = [(number, CODE.sub("", line)) for number, line in prose(text)]
    # A link's text may go over the line's end: look at each line together with the one after it.
    seen = set()
    for index, (number, line) in enumerate(lines):
        joined = line + " " + lines[index + 1][1] if index + 1 < len(lines) else line
        for pattern in (INLINE, HTML, DEFINITION):
            for match in pattern.finditer(joined):
                if match.start() >= len(line):
                    continue
                inner = [each[1] for each in INLINE.finditer(match[0][match[0].find("[") + 1:])]
                for target in [match[1], *inner]:
                    if (number, target) not in seen:
                        seen.add((number, target))
                        yield number, target


def anchors(text):
    """The anchors of the headings, as GitHub makes them; the second of a name ends in -1."""
    counts = {}
    result = set()
    for _, line in prose(text):
        heading = HEADING.match(line)
        if not heading:
            continue
        name = NESTED.sub(r"\1", heading[2]).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-")
        count = counts.get(slug, 0)
        counts[slug] = count + 1
        result.add(f"{slug}-{count}" if count else slug)
    return result


def check(root, files):
    """What is wrong with the links of the Markdown among `files` (paths below root), a line each."""
    files = {pathlib.PurePosixPath(file) for file in files}
    pages = {file: (root / file).read_text() for file in files if file.suffix == ".md"}
    headings = {file: anchors(text) for file, text in pages.items()}
    problems = []
    linked = set()
    for page in sorted(pages):
        for number, target in targets(pages[page]):
            where = f"{page}:{number}: {target}"
            parts = urllib.parse.urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            path = urllib.parse.unquote(parts.path)
            if path.startswith("/"):
                problems.append(f"{where}: begins at the host's root; make it relative to the page")
                continue
            file = normal(page.parent / path) if path else page
            if file is None or file not in files:
                folder = file is not None and any(file in each.parents for each in files)
                problems.append(f"{where}: " + ("is a folder; link its README.md" if folder else "no such file"))
                continue
            if file != page:
                linked.add(file)
            if parts.fragment and file in headings and parts.fragment not in headings[file]:
                problems.append(f"{where}: {file} has no heading with this anchor")
    for page in sorted(pages):
        if page.parts[0] == "docs" and page not in linked:
            problems.append(f"{page}: no other page links it")
    return problems


def normal(path):
    """The path without `..`; None where it leaves the repository."""
    parts = []
    for part in path.parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part != ".":
            parts.append(part)
    return pathlib.PurePosixPath(*parts)


def tracked(root):
    """The files of the working tree that git tracks or would."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            check=True, stdout=subprocess.PIPE, text=True).stdout
    return [file for file in listed.split("\0") if file and (root / file).is_file()]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    problems = check(root, tracked(root))
    for problem in problems:
        print(f"check_links: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
