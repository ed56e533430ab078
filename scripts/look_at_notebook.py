#!/usr/bin/env python3
"""Runs examples/python/in_a_notebook.ipynb in JupyterLab in Chromium, and takes its picture, to be looked at.

    python3 -m venv .venvs/notebook && .venvs/notebook/bin/pip install -r scripts/notebook_tools.txt
    .venvs/notebook/bin/pip install .         or PYTHONPATH=BUILD/python, a build tree with -DQUIRE_PYTHON=ON
    .venvs/notebook/bin/python scripts/look_at_notebook.py build/notebook.png

Uses the Chromium that is installed (scripts/install_deps.sh browser). Fails where a cell does.
"""

import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from playwright.sync_api import sync_playwright

SOURCE = pathlib.Path(__file__).resolve().parent.parent
NOTEBOOK = SOURCE / "examples/python/in_a_notebook.ipynb"
CELL_MS = 150_000


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_ready(url, server):
    for _ in range(600):
        try:
            with urllib.request.urlopen(url + "/api", timeout=5):
                return
        except OSError:
            if server.poll() is not None:
                raise SystemExit("look_at_notebook: Jupyter has ended") from None
            time.sleep(0.2)
    raise SystemExit("look_at_notebook: Jupyter does not answer")


def run(page, url):
    """Titles of the tokens that are shown, and what cells wrote to stderr."""
    page.goto(f"{url}/doc/tree/{NOTEBOOK.name}", timeout=CELL_MS)
    page.wait_for_selector(".jp-Notebook", timeout=CELL_MS)
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=CELL_MS)
    page.get_by_role("menuitem", name="Run", exact=True).click(timeout=CELL_MS)
    page.get_by_text("Run All Cells", exact=True).click(timeout=CELL_MS)
    page.wait_for_selector(".jp-OutputArea-output iframe", timeout=CELL_MS)
    page.wait_for_function("document.querySelectorAll('.jp-InputPrompt').length > 0 && "
                           "![...document.querySelectorAll('.jp-InputPrompt')].some(e => e.textContent.includes('*'))",
                           timeout=CELL_MS)
    failed = page.locator(".jp-RenderedText[data-mime-type='application/vnd.jupyter.stderr']").all_inner_texts()
    tokens = page.locator(".jp-OutputArea-output span[title]")
    tokens.nth(3).hover()
    time.sleep(2)  # what is drawn in the frame
    return [token.get_attribute("title") for token in tokens.all()], failed


def shoot(url, picture):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 1500}, device_scale_factor=1.5)
        try:
            shown, failed = run(page, url)
        finally:
            page.screenshot(path=picture)
        browser.close()
    return shown, failed


def main():
    picture = pathlib.Path(sys.argv[1]).resolve()
    url = f"http://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(NOTEBOOK, folder)
        (pathlib.Path(folder) / "models").symlink_to(SOURCE / "models")  # where the bundled model is looked for
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={url.rpartition(':')[2]}",
                   "--ServerApp.port_retries=0", "--IdentityProvider.token=", f"--ServerApp.root_dir={folder}"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_ready(url, server)
            shown, failed = shoot(url, picture)
        finally:
            server.terminate()
            server.wait()
    if failed or not shown:
        raise SystemExit(f"look_at_notebook: {failed or 'no token is shown'}")
    print(f"{len(shown)} tokens with their alternatives, the first: {shown[0]!r}; {picture}")


if __name__ == "__main__":
    main()
