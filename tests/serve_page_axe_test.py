"""The page by axe-core, the checker of accessibility: every view and dialog, in light and in dark,
wide and as narrow as a phone, has nothing that it complains about.

    serve_page_axe_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import re

from live_support import Load
from page_support import NARROW, PATIENCE, PageTest, expect
from serve_support import main, missing

try:
    from axe_playwright_python.sync_playwright import Axe
except ImportError:
    Axe = None

# What the standards of WCAG 2.2 A and AA ask for, and axe-core's best practices; in dark, where nothing
# but colours differs, what looks at these. Of what passes, axe-core gives the rules without all places.
EVERYTHING = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
              "resultTypes": ["violations"]}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},
           "resultTypes": ["violations"]}


class AxeTest(PageTest):
    simulate = 10

    @classmethod
    def setUpClass(cls):
        if Axe is None:
            missing("axe-playwright-python", "run `make test-clients`")
        super().setUpClass()

    def assert_clean(self, view):
        """In dark, then in light, in which the page stays."""
        for scheme, options in (("dark", COLOURS), ("light", EVERYTHING)):
            self.page.emulate_media(color_scheme=scheme)
            # Half faded in, a colour has another contrast.
            self.page.evaluate(
                "() => Promise.allSettled(document.getAnimations().map((each) => each.finished)).then(() => null)")
            if not self.page.evaluate("() => 'axe' in window"):
                self.page.evaluate(Axe().axe_script)
            result = self.page.evaluate("(options) => axe.run(options)", options)
            passed = [each["id"] for each in result["passes"]]
            self.assertIn("color-contrast", passed, view)  # it did look
            if scheme == "light":
                self.assertGreater(len(passed), 10, view)
            found = [f"{each['id']} ({each['help']}): {node['html'][:200]}\n  {node['failureSummary']}"
                     for each in result["violations"] for node in each["nodes"]]
            self.assertEqual(found, [], f"{view}, {scheme}: " + "\n".join(found))


class Checker(AxeTest):
    def test_it_finds_what_is_wrong(self):
        self.open("model")
        # Grey is too weak in dark alone or in light alone, or the whole is faded.
        for scheme, colour in (("dark", "rgb(90 90 90)"), ("light", "rgb(170 170 170)")):
            self.page.evaluate("(colour) => document.querySelector('h2').style.setProperty('color', colour)", colour)
            with self.assertRaisesRegex(AssertionError, f"model, {scheme}: color-contrast"):
                self.assert_clean("model")


class Views(AxeTest):
    flags = ("--max-num-seqs", 4)

    def answer(self):
        box = self.page.get_by_role("textbox", name=re.compile("Message|Text to go on from"))
        box.fill("Hello there")
        box.press("Enter")
        answer = self.page.locator("article.answer").last
        expect(answer).to_have_attribute("aria-busy", "false", timeout=3 * PATIENCE)
        return answer

    def close_dialog(self):
        self.page.keyboard.press("Escape")
        expect(self.page.get_by_role("dialog")).to_have_count(0)

    def open_parameters(self):
        if self.viewport == NARROW:  # elsewhere they stand beside the conversation
            self.page.get_by_role("button", name=re.compile("[Pp]arameters|[Ss]ettings")).first.click()
        expect(self.page.locator("#system-prompt")).to_be_visible()

    def test_playground(self):
        self.open()
        self.assert_clean("playground, empty")
        self.open_parameters()
        self.page.locator("#parameter-max_tokens").fill("12")
        self.assert_clean("playground, parameters")

    def test_playground_with_an_answer(self):
        self.open()
        self.open_parameters()
        self.page.locator("#parameter-max_tokens").fill("12")
        if self.viewport == NARROW:
            self.page.keyboard.press("Escape")
            expect(self.page.locator("#parameters")).to_be_hidden()
        answer = self.answer()
        self.assert_clean("playground, answer")
        answer.get_by_role("button", name="Tokens", exact=True).click()
        expect(answer.locator(".token").first).to_be_visible()
        self.assert_clean("playground, tokens of an answer")
        answer.get_by_role("button", name="Code", exact=True).click()
        expect(self.page.get_by_role("dialog")).to_be_visible()
        self.assert_clean("dialog: code")
        self.close_dialog()
        answer.get_by_role("button", name="Why", exact=True).click()
        expect(self.page.locator("dialog table.why tr").first).to_be_visible()
        self.assert_clean("dialog: why")
        self.close_dialog()

    def test_engine(self):
        self.open("engine")
        expect(self.page.locator(".connection")).to_have_text("Live")
        self.assert_clean("engine, idle")
        with Load(self.server, 6):
            queue = self.page.get_by_role("table", name="The queue, the next one first")
            expect(queue.locator("tbody tr")).to_have_count(2)
            self.assert_clean("engine, loaded")
            self.page.get_by_role("table", name="Requests that run").get_by_role("button").first.click()
            expect(self.page.locator("dialog table.why tr").first).to_be_visible()
            self.assert_clean("dialog: why of one that runs")

    def test_model(self):
        self.open("model")
        expect(self.page.get_by_role("heading", name="Memory plan")).to_be_visible()
        for name in ("Tokenizer", "Chat template"):
            expect(self.page.get_by_role("region", name=name).locator(".token").first).to_be_visible()
        self.assert_clean("model")

    def test_calculator(self):
        self.open("calculator")
        expect(self.page.locator(".verdict")).to_be_visible()
        self.assert_clean("calculator")
        self.page.get_by_label("Prompt, tokens").fill("0")
        expect(self.page.get_by_role("alert")).to_be_visible()
        self.assert_clean("calculator, an error")

    def test_an_error(self):
        self.allow(400)
        self.open()
        self.page.route("**/v1/chat/completions", lambda route: route.fulfill(
            status=400, content_type="application/json",
            body='{"error": {"message": "no", "type": "invalid_request_error", "param": "seed", "code": null}}'))
        self.page.get_by_role("textbox", name="Message").fill("Hello")
        self.page.get_by_role("textbox", name="Message").press("Enter")
        expect(self.page.locator(".error")).to_be_visible()
        self.assert_clean("playground, an error")


class NarrowViews(Views):
    viewport = NARROW


class Key(AxeTest):
    key = "secret"

    def test_the_key_is_asked_for(self):
        self.allow(401)
        self.page.goto(f"{self.server.url}/")
        expect(self.page.get_by_role("dialog")).to_be_visible()
        self.assert_clean("dialog: key")


if __name__ == "__main__":
    main()
