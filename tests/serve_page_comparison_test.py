"""Two settings side by side in the playground, in real Chromium: the same seed, tokens that differ marked, and
the conversation going on from either.

    serve_page_comparison_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import random
import re

from page_support import NARROW, PlaygroundTest, expect
from serve_support import main

DIFFERING = """async (cases) => {
  const {differing} = await import('./page/token_diff.js');
  const tokens = (text) => [...text].map((each) => ({text: each}));
  return cases.map(([a, b]) => differing(tokens(a), tokens(b)).map((each) => [...each].sort((x, y) => x - y)));
}"""


def longest_common(a, b):
    """How many tokens two texts have in common, in order."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = row[:]
        for j, y in enumerate(b):
            row[j + 1] = before[j] + 1 if x == y else max(before[j + 1], row[j])
    return row[-1]


class ComparisonTest(PlaygroundTest):
    flags = ("--max-model-len", 1024)
    simulate = 1

    def compare(self, common=(), **changed):
        """Opens the page, compares, and changes parameters: of both sides, and of side B."""
        self.open()
        for name, value in {"max_tokens": 12, **dict(common)}.items():
            self.set_parameter(name, value)
        self.page.get_by_role("button", name="Compare").click()
        self.page.evaluate("() => document.querySelectorAll('#parameters details').forEach((each) => { each.open = true; })")
        for name, value in changed.items():
            self.page.locator(f"#parameter-B-{name}").fill(str(value))

    def say(self, text):
        """The answers of both sides."""
        self.send(text)
        return [self.await_answer(-2), self.await_answer(-1)]

    def side(self, name):
        return self.page.get_by_role("region", name=f"Side {name}").last


class Simulated(ComparisonTest):
    def test_two_settings_with_one_seed(self):
        bodies = self.bodies()
        self.compare(temperature=1.5, n=3)
        self.say("Hello")
        self.assertEqual(len(bodies), 2)
        bodies.sort(key=lambda body: body.get("temperature", 0))
        self.assertEqual(bodies[0]["seed"], bodies[1]["seed"])
        self.assertEqual(bodies[1]["temperature"], 1.5)
        self.assertEqual(bodies[0]["messages"], bodies[1]["messages"])
        self.assertFalse(any("n" in body for body in bodies))
        expect(self.side("B")).to_contain_text("temperature 1.5")
        expect(self.page.locator(".comparison")).to_contain_text(f"Seed {bodies[0]['seed']}")

    def test_the_same_settings_say_the_same(self):
        self.compare(seed=11)
        first, second = self.say("Hello")
        expect(self.page.locator(".comparison")).to_contain_text("Seed 11. Both say the same.")
        self.assertEqual(first.locator(".strip").inner_text(), second.locator(".strip").inner_text())
        expect(self.page.locator(".differs")).to_have_count(0)

    def test_it_goes_on_from_either_side(self):
        self.compare(max_tokens=5)
        bodies = self.bodies()
        texts = [each.locator(".strip").inner_text() for each in self.say("Hello")]
        self.assertNotEqual(*texts)
        expect(self.side("A").get_by_role("button", name="Goes on here")).to_be_visible()
        self.side("B").get_by_role("button", name="Go on here").click()
        expect(self.side("B").get_by_role("button", name="Goes on here")).to_be_visible()
        self.page.get_by_role("button", name="Compare").click()
        self.send("And then?")
        expect(self.page.locator("article.answer")).to_have_count(3)
        self.await_answer()
        said = [each["content"] for each in bodies[2]["messages"] if each["role"] == "assistant"]
        self.assertEqual(len(said), 1)
        self.assertTrue(texts[1].replace("↵", "").startswith(said[0][:8].split("\n")[0]), (said, texts))
        self.reload()
        expect(self.page.locator("article.answer")).to_have_count(3)
        expect(self.side("B").get_by_role("button", name="Goes on here")).to_be_visible()

    def test_a_comparison_is_one_version(self):
        self.open()
        self.set_parameter("max_tokens", 4)
        self.send("Hello")
        self.await_answer()
        self.page.get_by_role("button", name="Compare").click()
        self.answer().get_by_role("button", name="Regenerate").click()
        expect(self.page.locator("article.answer")).to_have_count(2)
        versions = self.page.get_by_role("group", name="Versions of the answer")
        expect(versions).to_have_text("2/2")
        self.await_answer(0)
        self.await_answer(1)
        versions.get_by_role("button", name="Previous version").click()
        expect(self.page.locator("article.answer")).to_have_count(1)
        versions.get_by_role("button", name="Next version").click()
        expect(self.page.locator("article.answer")).to_have_count(2)

    def test_an_error_leads_to_its_side(self):
        self.allow(400)
        self.compare(top_k="many")
        self.page.get_by_role("button", name="Settings of side A").click()
        self.send("Hello")
        expect(self.page.locator(".problem")).to_contain_text('"many" is no whole number')
        expect(self.page.locator("#parameter-B-top_k")).to_be_focused()

    def test_settings_last_across_a_reload(self):
        self.compare(temperature=1.25)
        self.reload()
        expect(self.page.get_by_role("button", name="Compare")).to_have_attribute("aria-pressed", "true")
        self.page.get_by_role("button", name="Settings of side B").click()
        expect(self.page.locator("#parameter-B-temperature")).to_have_value("1.25")

    def test_what_differs_is_the_least_that_can(self):
        chance = random.Random(1)
        word = lambda: "".join(chance.choices("abc", k=chance.randrange(9)))
        cases = [(word(), word()) for _ in range(300)] + [("", ""), ("a" * 1500, "b" * 1500), ("same" + "a" * 1500, "same" + "b" * 1500)]
        self.open()
        for (a, b), (only_a, only_b) in zip(cases, self.page.evaluate(DIFFERING, cases)):
            left = "".join(each for i, each in enumerate(a) if i not in set(only_a))
            self.assertEqual(left, "".join(each for i, each in enumerate(b) if i not in set(only_b)), (a, b))
            self.assertEqual(len(left), longest_common(a, b), (a, b))


class Slow(ComparisonTest):
    flags = ("--max-model-len", 8192)
    simulate = 20

    def test_both_are_stopped_and_go_on(self):
        self.open()
        self.ask_for_much()
        self.page.get_by_role("button", name="Compare").click()
        self.send("Tell me everything")
        for index in (0, 1):
            self.await_speed(index)
        self.page.keyboard.press("Escape")
        for index in (0, 1):
            self.assertIn("stopped", self.stats(self.await_answer(index)))
        self.page.locator("#parameter-B-max_tokens").fill("3")
        self.answer(1).get_by_role("button", name="Continue").click()
        expect(self.answer(1).locator(".stats")).to_contain_text(re.compile(r"3 tokens after \d"))


class RealModel(ComparisonTest):
    simulate = None

    def test_tokens_that_differ_are_marked(self):
        tokyo = self.server.post("/page/tokens", {"text": " Tokyo"}).json["tokens"]
        self.assertEqual(len(tokyo), 1)
        self.compare({"temperature": 0}, logit_bias=f"{tokyo[0]['id']}: -100")
        first, second = self.say("What is the capital of Japan?")
        marked = [each.locator(".differs").all_inner_texts() for each in (first, second)]
        self.assertIn(" Tokyo", marked[0])
        self.assertTrue(marked[1])
        for answer, others in ((first, marked[0]), (second, marked[1])):
            self.assertGreater(answer.locator(".strip .token").count(), len(others))
        kept = [[each.inner_text() for each in answer.locator(".strip .token:not(.differs)").all()] for answer in (first, second)]
        self.assertEqual(*kept)
        self.reload()
        expect(self.answer(0).locator(".differs")).to_have_text(marked[0])


class Phone(ComparisonTest):
    viewport = NARROW

    def test_one_below_the_other(self):
        self.open()
        self.page.get_by_role("button", name="Parameters").click()
        self.set_parameter("max_tokens", 5)
        self.page.keyboard.press("Escape")
        expect(self.page.locator("#parameters")).to_be_hidden()
        self.page.get_by_role("button", name="Compare").click()
        self.say("Hello")
        self.assert_fits()
        # At one moment: the page may still scroll.
        above, below = self.page.locator(".side-of").evaluate_all("(sides) => sides.map((each) => each.getBoundingClientRect().toJSON())")
        self.assertGreater(below["top"], above["bottom"] - 1)
        self.page.get_by_role("button", name="Parameters").click()
        self.assert_fits()


if __name__ == "__main__":
    main()
