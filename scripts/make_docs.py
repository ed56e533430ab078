#!/usr/bin/env python3
"""Makes a site of the repository's Markdown: build/docs/index.html, by mkdocs-material.

    scripts/make_docs.py PROGRAM [OUTPUT]

The pages lie in the site as they lie in the repository, with every file that they link, so that links mean
the same in both. PROGRAM is the built `quire`, which computes the calculator's numbers (make_calculator.py). Installs mkdocs-material into .venvs/docs, at the versions of scripts/docs_tools.txt,
when it is not there. A warning is an error.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

import check_links
import make_calculator

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venvs" / "docs"
TOOLS = ROOT / "scripts" / "docs_tools.txt"
FOLDERS = ("docs", "examples")
NAV = [
    {"Quire": "README.md"},
    {"Use": ["docs/first_ten_minutes.md", "docs/commands.md", "docs/getting_models.md", "docs/python.md", "docs/clients.md", "docs/server.md", "docs/tools.md",
             "docs/structured_output.md", "docs/beam_search.md", "docs/speculation.md", "docs/models.md",
             "docs/compatibility.md", "docs/page_comparison.md", "examples/README.md", "docs/glossary.md"]},
    {"Operate": ["docs/operators.md", "docs/deployment.md", "docs/planning.md", "examples/configs/README.md", "docs/kv_offload.md", "docs/event_log.md", "docs/benchmarking.md"]},
    {"Performance": ["docs/performance.md", *(f"docs/performance/{name}.md" for name in (
        "limits", "peers", "products", "attention", "experts", "speculation", "step", "scheduling", "serving", "quality",
        "encodings", "loading"))]},
    {"Contribute": ["CONTRIBUTING.md", "docs/architecture.md", "docs/development.md", "docs/add_a_model.md",
                    "docs/dependencies.md"]},
]
CONFIG = {
    "site_name": "Quire", "site_url": "", "use_directory_urls": False, "nav": NAV,
    # No font and no script from another host.
    "theme": {"name": "material", "font": False, "features": ["navigation.tabs", "toc.follow"],
              "palette": [{"media": "(prefers-color-scheme: light)", "scheme": "default"},
                          {"media": "(prefers-color-scheme: dark)", "scheme": "slate"}]},
    "plugins": ["search"],
    "markdown_extensions": [
        # Headings get the anchors that GitHub gives them, which check_links.py knows.
        {"toc": {"slugify": "check_links_slug"}}, "tables", "pymdownx.superfences", "sane_lists"],
    "validation": {"links": {"anchors": "warn", "unrecognized_links": "warn"}},
}


def pages():
    """The pages of the site and the files that they link, as paths below the root."""
    tracked = {pathlib.PurePosixPath(file) for file in check_links.tracked(ROOT)}
    found = {file for file in tracked if file.suffix == ".md" and
             (len(file.parts) == 1 or file.parts[0] in FOLDERS)}
    linked = set()
    for page in found:
        for _, target in check_links.targets((ROOT / page).read_text()):
            parts = urllib.parse.urlsplit(target)
            if not parts.scheme and not parts.netloc and parts.path:
                linked.add(check_links.normal(page.parent / urllib.parse.unquote(parts.path)))
    return sorted(found | (linked & tracked))


def install():
    installed = VENV / "installed.txt"
    if installed.exists() and installed.read_text() == TOOLS.read_text():
        return
    print(f"make_docs: installing into {VENV.relative_to(ROOT)}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    subprocess.run([VENV / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", TOOLS],
                   check=True)
    shutil.copy(TOOLS, installed)


def main():
    if not 2 <= len(sys.argv) <= 3:
        raise SystemExit(__doc__)
    output = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "build" / "docs").resolve()
    install()
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "source")
        for page in pages():
            (source / page).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / page, source / page)
        config = {**CONFIG, "docs_dir": str(source), "site_dir": str(output)}
        # YAML reads JSON; a function is a tag of YAML's own.
        text = json.dumps(config).replace(
            '"check_links_slug"', '!!python/object/apply:pymdownx.slugs.slugify {"kwds": {"case": "lower"}}')
        pathlib.Path(folder, "mkdocs.yml").write_text(text)
        subprocess.run([VENV / "bin" / "python", "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file",
                        pathlib.Path(folder, "mkdocs.yml")], check=True)
    # In place of its source, which pages link.
    make_calculator.make(pathlib.Path(sys.argv[1]), output / "docs" / "calculator" / "calculator.html")
    print(output / "index.html")


if __name__ == "__main__":
    main()
