#!/usr/bin/env python3
"""Makes the pictures of docs/first_ten_minutes.md, its five tasks, and of README.md, in Chromium with the bundled model.

    .venvs/clients/bin/python scripts/make_page_pictures.py PROGRAM

writes docs/pictures/*.png and docs/page-playground.png, and prints how long each task took.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from page_answers import SOURCE, serve

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    sys.exit("make_page_pictures: playwright is not there; run `make test-clients`, then use .venvs/clients/bin/python")

PICTURES = SOURCE / "docs/pictures"
KEY = "sesame"
DESK = {"viewport": {"width": 1120, "height": 700}, "device_scale_factor": 0.75, "color_scheme": "light"}
WIDE = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"}
PHONE = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 0.75, "color_scheme": "dark"}
QUESTIONS = ("What is the capital of Japan?", "Write a Python function that reverses a list.", "Write a haiku about the sea.")
PATIENCE_MS = 120_000


@contextlib.contextmanager
def served(program, *flags):
    """The server's address."""
    process, url = serve(program, *flags)
    try:
        yield url
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def timed(task):
    begin = time.monotonic()
    yield
    print(f"{task}: {time.monotonic() - begin:.1f} s", flush=True)


@contextlib.contextmanager
def shown(browser, look):
    """A tab in a fresh profile."""
    context = browser.new_context(**look)
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield context.new_page()
    finally:
        context.close()


def picture(target, name):
    target.screenshot(path=PICTURES / f"{name}.png", animations="disabled")


def ask(page, question):
    """The answer, when it is complete."""
    answer = page.locator("article.answer").nth(page.locator("article.answer").count())
    box = page.locator("#prompt")
    box.fill(question)
    box.press("Enter")
    answer.and_(page.locator("[aria-busy=false]")).wait_for()
    return answer


def at_the_desk(browser, program):
    with served(program) as url, shown(browser, DESK) as page:
        with timed("open the page"):
            page.goto(url)
            page.locator("#prompt").wait_for()
        picture(page, "welcome")
        with timed("ask three questions"):
            for question in QUESTIONS:
                answer = ask(page, question)
        picture(page, "questions")
        with timed("find out why an answer was slow"):
            answer.get_by_role("button", name="Why").click()
            page.locator("table.why").wait_for()
        picture(page.get_by_role("dialog"), "why")


def by_phone(browser, program):
    with served(program, "--api-key", KEY) as url, shown(browser, PHONE) as page:
        with timed("from a phone, with a key"):
            page.goto(url)
            field = page.get_by_label("API key")
            field.wait_for()
            picture(page, "phone-key")
            field.fill(KEY)
            field.press("Enter")
            page.locator("#prompt").wait_for()
            ask(page, QUESTIONS[0]).get_by_role("button", name="Why").click()
            page.locator("table.why").wait_for()
        picture(page, "phone-why")


def measured(browser, program):
    with served(program) as url, tempfile.TemporaryDirectory() as folder, shown(browser, DESK) as page:
        report = pathlib.Path(folder, "load.html")
        with timed("measure it"):
            subprocess.run([program, "bench", "serve", "--base-url", url, "--num-prompts", "32", "--input-len", "128", "--html", report], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        page.goto(report.as_uri())
        picture(page, "load")


def tokens_of_an_answer(browser, program):
    with served(program) as url, shown(browser, WIDE) as page:
        page.goto(url)
        page.locator("#parameter-seed").fill("7")
        ask(page, QUESTIONS[1])
        answer = ask(page, QUESTIONS[0])
        answer.get_by_role("button", name="Tokens").click()
        answer.locator(".token").first.hover()
        page.screenshot(path=SOURCE / "docs/page-playground.png", animations="disabled")


def main(program):
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        sys.exit("make_page_pictures: Chromium is not there; run scripts/install_deps.sh browser")
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as driver:
        # Chromium's own sandbox does not work for root.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        for task in (at_the_desk, by_phone, measured, tokens_of_an_answer):
            task(browser, program)
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
