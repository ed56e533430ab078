"""What the tests of the page share: real Chromium, and an eye on everything that it complains about.

A test fails if the browser reports an error in any of its flows: an exception, a message of kind
"error" on the console, a violation of the content security policy. Where the server is meant to
refuse a request, the test says so with allow().
"""

import os
import re
import shutil

from serve_support import ServerTest, missing

try:
    from playwright.sync_api import expect, sync_playwright
except ImportError:
    expect = sync_playwright = None

SECONDS = 1000
NARROW = {"width": 360, "height": 740}
WIDE = {"width": 1280, "height": 800}
# Tells of each violation by the console, besides what Chromium itself says there.
REPORT_VIOLATIONS = """
document.addEventListener('securitypolicyviolation', (event) =>
  console.error(`violates ${event.violatedDirective}: ${event.blockedURI}`));
"""


def find_browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    return missing("Chromium", "run scripts/install_deps.sh browser")


class PageTest(ServerTest):
    """Tests that share a server and a browser; `self.page` shows the page, in a fresh profile each."""

    viewport = WIDE
    color_scheme = "light"

    @classmethod
    def setUpClass(cls):
        if sync_playwright is None:
            missing("playwright", "run `make test-clients`")
        path = find_browser()
        super().setUpClass()
        driver = sync_playwright().start()
        cls.addClassCleanup(driver.stop)
        # Chromium's own sandbox does not work for root, nor in most containers.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        cls.browser = driver.chromium.launch(executable_path=path, args=arguments)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.complaints = []
        self.allowed = []
        self.context = self.browser.new_context(viewport=self.viewport, color_scheme=self.color_scheme)
        self.addCleanup(self.context.close)
        self.context.set_default_timeout(30 * SECONDS)
        self.context.add_init_script(REPORT_VIOLATIONS)
        self.page = self.context.new_page()
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(f"exception: {error}"))

    def _note(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def tearDown(self):
        left = [each for each in self.complaints
                if not any(f"status of {status}" in each for status in self.allowed)]
        self.assertEqual(left, [])

    def allow(self, status):
        """The server will refuse a request with this status, which Chromium calls an error."""
        self.allowed.append(status)

    def open(self, tab="playground"):
        self.page.goto(f"{self.server.url}/#{tab}")
        expect(self.page.get_by_role("tab", selected=True)).to_have_text(tab.capitalize())

    def assert_fits(self):
        """Nothing makes the page scroll sideways."""
        width, shown = self.page.evaluate(
            "() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        self.assertLessEqual(width, shown)


class PlaygroundTest(PageTest):
    """Steps that flows of the playground share."""

    def send(self, text):
        self.page.get_by_role("textbox", name=re.compile("Message|Text to go on from")).fill(text)
        self.page.keyboard.press("Enter")

    def answer(self, index=-1):
        return self.page.locator("article.answer").nth(index)

    def await_answer(self, index=-1):
        answer = self.answer(index)
        expect(answer).to_have_attribute("aria-busy", "false", timeout=60_000)
        return answer

    def await_piece(self):
        """Waits until the answer has begun."""
        expect(self.answer().locator(".body")).to_have_text(re.compile(r"\S"))

    def set_parameter(self, name, value):
        self.page.locator(f"#parameter-{name}").fill(str(value))

    def stats(self, answer):
        return answer.locator(".stats").inner_text()
