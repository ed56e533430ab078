"""What the tests of the page share: real Chromium, and an eye on everything that it complains about.

A test fails if the browser reports an error in any of its flows: an exception, a message of kind
"error" on the console, a violation of the content security policy. Where the server is meant to
refuse a request, the test says so with allow().

The browser, the server and the test may each stand still for seconds where others want the machine. So
a test waits for what it needs before it goes on, with a patience that costs nothing when all is well, and
what the page shows for a moment only is noted by the page itself (note_texts).
"""

import os
import re
import shutil
import unittest

from serve_support import ServerTest, missing, wait_until

try:
    from playwright.sync_api import expect, sync_playwright
except ImportError:
    expect = sync_playwright = None

SECONDS = 1000
PATIENCE = 60 * SECONDS
NARROW = {"width": 360, "height": 740}
WIDE = {"width": 1280, "height": 800}
# Tells of each violation by the console, besides what Chromium itself says there.
REPORT_VIOLATIONS = """
document.addEventListener('securitypolicyviolation', (event) =>
  console.error(`violates ${event.violatedDirective}: ${event.blockedURI}`));
"""
NOTE_TEXTS = """(element) => {
  element.texts = [];
  new MutationObserver(() => element.texts.push(element.textContent))
    .observe(element, {childList: true, characterData: true, subtree: true});
}"""
# markdown_lexer.js has set up what it takes Markdown apart with, and answers have been shown anew by it.
MARKDOWN_IS_READY = "() => Boolean(window.marked?.defaults.extensions)"


def find_browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    return missing("Chromium", "run scripts/install_deps.sh browser")


class BrowserTest(unittest.TestCase):
    """Tests that share a browser; `self.page` is a tab, in a fresh profile each."""

    viewport = WIDE
    color_scheme = "light"

    @classmethod
    def setUpClass(cls):
        if sync_playwright is None:
            missing("playwright", "run `make test-clients`")
        path = find_browser()
        super().setUpClass()
        expect.set_options(timeout=PATIENCE)
        driver = sync_playwright().start()
        cls.addClassCleanup(driver.stop)
        # Chromium's own sandbox does not work for root, nor in most containers.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        cls.browser = driver.chromium.launch(executable_path=path, args=arguments, timeout=2 * PATIENCE)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.complaints = []
        self.allowed = []
        self.context = self.browser.new_context(viewport=self.viewport, color_scheme=self.color_scheme)
        self.addCleanup(self.context.close)
        self.context.set_default_timeout(PATIENCE)
        self.context.add_init_script(REPORT_VIOLATIONS)
        self.page = self.context.new_page()
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(f"exception: {error}"))

    def _note(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def tearDown(self):
        left = [each for each in self.complaints if not any(text in each for text in self.allowed)]
        self.assertEqual(left, [])

    def allow(self, status):
        """The server will refuse a request with this status, which Chromium calls an error."""
        self.allowed.append(f"status of {status}")

    def assert_fits(self):
        """Nothing makes the page scroll sideways."""
        width, shown = self.page.evaluate(
            "() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        self.assertLessEqual(width, shown)


class PageTest(BrowserTest, ServerTest):
    """Tests that share a server, too, whose page is shown."""

    def open(self, tab="playground"):
        self.page.goto(f"{self.server.url}/#{tab}")
        expect(self.page.get_by_role("tab", selected=True)).to_have_text(tab.capitalize())
        if tab == "playground":
            self.await_playground()

    def await_playground(self):
        """Waits until it shows what was open: it is empty before."""
        expect(self.page.locator("#prompt")).to_be_visible()

    def note_texts(self, locator):
        """From now on the element's texts are kept, however short each is there; what waits for one."""
        locator.evaluate(NOTE_TEXTS)

        def await_text(pattern):
            wait_until(lambda: any(re.search(pattern, each) for each in locator.evaluate("(element) => element.texts")),
                       f"it says {pattern}")
        return await_text


class PlaygroundTest(PageTest):
    """Steps that flows of the playground share."""

    def reload(self):
        self.page.reload()
        self.await_playground()

    def bodies(self):
        """The bodies of the completions and chats that are sent from now on."""
        bodies = []
        self.page.on("request", lambda request: bodies.append(request.post_data_json)
                     if request.url.endswith("completions") else None)
        return bodies

    def send(self, text):
        box = self.page.get_by_role("textbox", name=re.compile("Message|Text to go on from"))
        box.fill(text)
        box.press("Enter")

    def answer(self, index=-1):
        return self.page.locator("article.answer").nth(index)

    def await_answer(self, index=-1):
        answer = self.answer(index)
        expect(answer).to_have_attribute("aria-busy", "false", timeout=3 * PATIENCE)
        return answer

    def await_speed(self, index=-1):
        """Waits until the answer has begun and it is known how fast it comes: not with the first token."""
        expect(self.answer(index).locator(".body")).to_have_text(re.compile(r"\S"))
        expect(self.answer(index).locator(".stats")).to_contain_text("tokens/s")

    def text_of(self, answer):
        """What an answer in a chat that is complete says, by its Markdown and no longer as it came."""
        self.page.wait_for_function(MARKDOWN_IS_READY)
        return answer.locator(".body").inner_text()

    def texts(self):
        return self.page.locator(".message .prose").all_inner_texts()

    def expect_texts(self, *texts):
        """The messages of the user that are shown."""
        expect(self.page.locator(".message .prose")).to_have_text(list(texts))

    def set_parameter(self, name, value):
        self.page.locator(f"#parameter-{name}").fill(str(value))

    def ask_for_much(self):
        """Answers will take as long as max_tokens says, which is longer than any test."""
        self.set_parameter("max_tokens", 8000)
        box = self.page.locator("#parameter-ignore_eos")
        box.evaluate("(box) => { box.closest('details').open = true; }")
        box.click()  # once: the help of the field that had the focus does not move it away
        expect(box).to_be_checked()

    def stats(self, answer):
        return answer.locator(".stats").inner_text()
