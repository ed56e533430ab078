#!/usr/bin/env python3
"""Makes of Debian's packages what the page shows answers with: libraries, fonts and their licences.

    make_page_libraries.py FOLDER

writes into FOLDER marked.js, highlight.js (the languages below only), katex.js, katex.css with its fonts,
inter.woff2 (the letters below only) and licences.txt. The build puts them into the program; nothing of
them is kept in the repository.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

SHARE = Path("/usr/share")
JAVASCRIPT = SHARE / "javascript"
PACKAGES = ("libjs-marked", "libjs-highlight.js", "libjs-katex", "fonts-katex", "fonts-inter-variable")
LANGUAGES = ("bash cmake cpp cs css diff dockerfile go haskell http ini java javascript json kotlin lua makefile "
             "markdown nginx perl php plaintext powershell protobuf python r ruby rust scala shell sql swift "
             "typescript x86asm xml yaml").split()
# Latin with what European languages add, punctuation, arrows and signs; all else is the system's.
LETTERS = ("U+0020-007E,U+00A0-017F,U+02C6,U+02DC,U+2010-2027,U+2030-203A,U+20AC,U+2122,U+2190-2193,U+2212,U+2248,"
           "U+2260,U+2264,U+2265")
FEATURES = "kern,liga,calt,tnum,ccmp,locl,mark,case"


def fail(message):
    sys.exit(f"make_page_libraries: {message}")


def source(path):
    if not path.is_file():
        fail(f"{path} is not there; run scripts/install_deps.sh build")
    return path


def run(*command):
    try:
        subprocess.run([str(each) for each in command], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        fail(f"{command[0]} is not installed; run scripts/install_deps.sh build")
    except subprocess.CalledProcessError as error:
        fail(f"{command[0]} failed: {error.stderr.strip()}")


def some_languages(text):
    """highlight.js with the languages that are wanted alone: each is one call that registers it."""
    core, *rest = re.split(r'(?=hljs\.registerLanguage\("[^"]+",)', text)
    by_name = {re.match(r'hljs\.registerLanguage\("([^"]+)"', each).group(1): each for each in rest}
    if missing := [name for name in LANGUAGES if name not in by_name]:
        fail(f"highlight.js has no {', '.join(missing)}")
    return core + "\n".join(by_name[name] for name in LANGUAGES)


def own_fonts(css):
    """KaTeX's style sheet with one kind of file for each font, beside it. Returns it and their names."""
    names = sorted(set(re.findall(r"fonts/([\w-]+)\.woff2\)", css)))
    css = re.sub(r",url\(fonts/[\w-]+\.(?:woff|ttf)\) format\('\w+'\)", "", css)
    css = re.sub(r"fonts/([\w-]+\.woff2)", r"\1", css)
    if not names or "fonts/" in css:
        fail("katex.min.css names its fonts in a way that is not expected here")
    return css, names


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source(JAVASCRIPT / "marked/marked.umd.min.js"), folder / "marked.js")
    shutil.copyfile(source(JAVASCRIPT / "katex/katex.min.js"), folder / "katex.js")
    highlight = source(JAVASCRIPT / "highlight.js/highlight.min.js").read_text(encoding="utf-8")
    (folder / "highlight.js").write_text(some_languages(highlight), encoding="utf-8")
    css, fonts = own_fonts(source(JAVASCRIPT / "katex/katex.min.css").read_text(encoding="utf-8"))
    (folder / "katex.css").write_text(css, encoding="utf-8")
    for name in fonts:
        shutil.copyfile(source(SHARE / f"fonts/truetype/katex/{name}.woff2"), folder / f"{name}.woff2")
    inter = folder / "inter.ttf"
    run("hb-subset", source(SHARE / "fonts/truetype/inter-vf/Inter-roman.var.ttf"), f"--unicodes={LETTERS}",
        f"--layout-features={FEATURES}", f"--output-file={inter}")
    run("woff2_compress", inter)
    inter.unlink()
    licences = [f"==== {name}\n\n{source(SHARE / 'doc' / name / 'copyright').read_text(encoding='utf-8')}"
                for name in PACKAGES]
    (folder / "licences.txt").write_text("\n".join(licences), encoding="utf-8")


if __name__ == "__main__":
    main()
