"""The page in real Chromium, against the bundled model: the playground where tokens matter, the model's tab.

    serve_page_model_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import json
import math
import os
import re
import shlex
import subprocess

from cli_support import PROGRAM, SMOLLM2
from page_support import PlaygroundTest, expect
from serve_support import PYTHON, main


class RealModel(PlaygroundTest):
    flags = ("--max-model-len", 1024)
    simulate = None

    def test_chat(self):
        bodies = []
        self.page.on("request", lambda request: bodies.append(request.post_data_json)
                     if request.url.endswith("/v1/chat/completions") else None)
        self.open()
        self.set_parameter("temperature", 0)
        self.send("What is the capital of Japan?")
        first = self.await_answer()
        self.assertIn("Tokyo", first.locator(".body").inner_text())
        self.assertRegex(self.stats(first), r"^TTFT [\d.]+ m?s · [\d.]+ tokens/s · \d+ tokens, \d+ in.*complete")
        self.page.locator("#system-prompt").fill("Answer in one word.")
        self.send("And of France?")
        self.await_answer(1)
        self.assertEqual([each["role"] for each in bodies[1]["messages"]],
                         ["system", "user", "assistant", "user"])
        self.assertIn("Tokyo", bodies[1]["messages"][2]["content"])
        self.assertEqual(bodies[1]["temperature"], 0)
        self.answer(1).get_by_role("button", name="Regenerate").click()
        again = self.await_answer(1)
        self.assertEqual(bodies[2], bodies[1])
        expect(self.page.locator("article.answer")).to_have_count(2)
        self.assertEqual(again.locator(".error").count(), 0)

    def test_the_page_starts_from_what_the_server_says(self):
        """`start` of each parameter, where it is not the default: also one that no server has said yet."""
        def fulfill(route):
            info = route.fetch().json()
            next(each for each in info["sampling"] if each["name"] == "top_k")["start"] = 7
            route.fulfill(json=info)
        sampling = self.server.get("/page/info").json["sampling"]
        self.page.route("**/page/info", fulfill)
        self.open()
        self.assertEqual(self.page.locator("#parameter-top_k").input_value(), "7")
        for each in sampling:
            if each["name"] in ("temperature", "top_p", "min_p"):
                start = "" if each["start"] == each["default"] else str(each["start"])
                self.assertEqual(self.page.locator(f"#parameter-{each['name']}").input_value(), start)
        expect(self.page.locator("#served-model")).not_to_contain_text("/")

    def test_a_completion_is_more_than_a_line(self):
        """How long it may be is shown and can be changed; a chat has no such limit."""
        bodies = self.bodies()
        limit = self.page.locator("#parameter-max_tokens")
        changed = self.page.locator(".parameters").get_by_text("1 changed")
        kind = self.page.get_by_role("group", name="Kind of request")
        self.open()
        expect(limit).to_have_value("")
        kind.get_by_role("button", name="Completion").click()
        expect(limit).to_have_value("128")
        expect(changed).to_be_hidden()
        self.send("Once upon a time")
        self.await_answer()
        self.set_parameter("max_tokens", 3)
        expect(changed).to_be_visible()
        self.send(" there")
        self.await_answer(1)
        self.assertEqual([each["max_tokens"] for each in bodies], [128, 3])
        kind.get_by_role("button", name="Chat").click()
        expect(limit).to_have_value("3")  # as the user said
        self.page.get_by_role("button", name="Reset").click()
        expect(limit).to_have_value("")
        self.reload()
        expect(limit).to_have_value("")
        kind.get_by_role("button", name="Completion").click()
        self.set_parameter("max_tokens", "")  # the server's own
        expect(limit).to_have_attribute("placeholder", "16")
        expect(changed).to_be_visible()

    def test_completion_with_alternatives(self):
        self.open()
        self.page.get_by_role("button", name="Completion").click()
        self.set_parameter("temperature", 0)
        self.set_parameter("max_tokens", 6)
        self.send("The capital of France is")
        answer = self.await_answer()
        expected = self.server.post("/v1/completions", {
            "prompt": "The capital of France is", "temperature": 0, "max_tokens": 6, "logprobs": 5,
        }).json["choices"][0]
        self.assertEqual(answer.locator(".continuation").text_content(), expected["text"])
        answer.get_by_role("button", name="Tokens").click()
        tokens = answer.locator(".strip .token")
        expect(tokens).to_have_count(6)
        tops = expected["logprobs"]["top_logprobs"]
        tokens.first.hover()
        self.assert_alternatives(tops[0])
        tokens.first.focus()
        self.page.keyboard.press("ArrowRight")
        expect(tokens.nth(1)).to_be_focused()
        self.assert_alternatives(tops[1])
        self.page.keyboard.press("End")
        self.assert_alternatives(tops[5])
        self.page.keyboard.press("Escape")
        expect(self.page.get_by_role("tooltip")).to_have_count(0)
        tokens.nth(2).hover()
        self.assert_alternatives(tops[2])
        self.send(" and")  # the pointer stays
        expect(self.page.get_by_role("tooltip")).to_have_count(0)

    def assert_alternatives(self, top):
        """The card lists what the API does, best first, with its probabilities."""
        rows = self.page.get_by_role("tooltip").locator("li")
        expect(rows).to_have_count(len(top))
        best = sorted(top.items(), key=lambda each: -each[1])
        expect(rows.locator("code")).to_have_text([text.replace(" ", "␣").replace("\n", "↵") for text, _ in best])
        share = rows.first.locator(".number").inner_text()
        self.assertAlmostEqual(float(share.strip("<%")) / 100, math.exp(best[0][1]), delta=0.006)
        expect(rows.locator("xpath=self::*[@class='chosen']")).to_have_count(1)

    def test_forced_tokens_are_marked(self):
        """Those that the API says are forced, in a legend's words, and for those who do not see the mark."""
        self.open()
        field = self.page.locator("#parameter-structured_outputs")
        field.evaluate("(field) => { field.closest('details').open = true; }")
        schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}, "country": {"type": "string", "maxLength": 12}},
                  "required": ["city", "country"], "additionalProperties": False}
        field.fill(json.dumps(schema))
        self.set_parameter("temperature", 0)
        self.set_parameter("max_tokens", 60)
        with self.page.expect_request("**/v1/chat/completions") as sent:
            self.send("The capital of France?")
        answer = self.await_answer()
        self.assertTrue(sent.value.post_data_json["return_forced_tokens"])
        expected = self.server.post("/v1/chat/completions", {
            **{name: value for name, value in sent.value.post_data_json.items() if not name.startswith("stream")},
        }).json["choices"][0]
        legend = answer.locator(".forced-legend")
        expect(legend).to_be_hidden()
        answer.get_by_role("button", name="Tokens").click()
        expect(legend).to_be_visible()
        tokens = answer.locator(".strip .token")
        forced = [" forced" in name for name in tokens.evaluate_all("(all) => all.map((each) => each.className)")]
        self.assertEqual(forced, expected["forced_tokens"])
        self.assertIn(True, forced)
        self.assertIn(False, forced)
        expect(tokens.nth(forced.index(True))).to_contain_text("(forced)")
        expect(tokens.nth(forced.index(False))).not_to_contain_text("(forced)")
        expect(answer.locator(".stats")).to_contain_text(f"{sum(forced)} forced")
        tokens.nth(forced.index(True)).hover()
        expect(self.page.get_by_role("tooltip")).to_contain_text("left no other token")
        tokens.nth(forced.index(False)).hover()
        expect(self.page.get_by_role("tooltip")).not_to_contain_text("left no other token")
        self.reload()  # an answer that was kept is shown as it was
        expect(self.answer().locator(".strip .forced")).to_have_count(sum(forced))
        self.answer().get_by_role("button", name="Code").click()
        expect(self.page.get_by_role("dialog").locator("pre")).not_to_contain_text("return_forced_tokens")

    def test_prompt_probabilities(self):
        self.open()
        self.page.get_by_role("button", name="Completion").click()
        self.page.locator("summary", has_text=re.compile("^Tokens$")).click()
        self.set_parameter("prompt_logprobs", 2)
        self.set_parameter("max_tokens", 2)
        self.send("One two three four")
        answer = self.await_answer()
        answer.get_by_role("button", name="Tokens").click()
        prompt = answer.get_by_label("Tokens of the prompt").locator(".token")
        expect(prompt.first).to_be_visible()
        self.assertEqual("".join(prompt.all_inner_texts()).strip(), "two three four")

    def test_code_that_is_shown_runs(self):
        self.open()
        self.set_parameter("temperature", 0)
        self.set_parameter("max_tokens", 12)
        self.set_parameter("top_k", 5)
        self.send("Say 'it\\'s' twice.\nThen stop.")
        answer = self.await_answer()
        text = self.text_of(answer)
        answer.get_by_role("button", name="Code").click()
        dialog = self.page.get_by_role("dialog")
        curl = dialog.locator("pre").inner_text()
        dialog.get_by_role("button", name="Python").click()
        python = dialog.locator("pre").inner_text()
        self.page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        environment = {**os.environ, "no_proxy": "*"}
        printed = subprocess.run([PYTHON, "-c", python], env=environment, capture_output=True,
                                 text=True, timeout=240, check=True).stdout
        plain = printed.strip().replace("\\'", "'")  # as Markdown reads an escape
        self.assertEqual(plain, text.strip())
        stream = subprocess.run(["bash", "-c", curl], env=environment, capture_output=True,
                                text=True, timeout=240, check=True).stdout
        events = [json.loads(line[6:]) for line in stream.splitlines()
                  if line.startswith("data: {")]
        streamed = "".join(event["choices"][0]["delta"].get("content") or ""
                           for event in events if event["choices"])
        self.assertEqual(streamed.strip(), printed.strip())
        for never_set in ("logprobs", "stream_options"):
            self.assertNotIn(never_set, curl + python)

    def test_why(self):
        self.open()
        self.set_parameter("max_tokens", 8)
        self.send("Hello")
        answer = self.await_answer()
        answer.get_by_role("button", name="Why").click()
        dialog = self.page.get_by_role("dialog")
        for phase in ("prompt", "output"):
            expect(dialog.get_by_role("cell", name=phase, exact=True)).to_be_visible()
        expect(dialog).to_contain_text(re.compile(r"[\d.]+ m?s in all, (complete|ended by its token limit)"))
        dialog.get_by_role("button", name="Close").click()
        expect(dialog).to_have_count(0)

    def test_several_outputs(self):
        self.open()
        self.set_parameter("n", 3)
        self.set_parameter("max_tokens", 4)
        self.set_parameter("seed", 1)
        self.send("Name a colour.")
        answer = self.await_answer()
        texts = []
        for number in (1, 2, 3):
            answer.get_by_role("button", name=f"Output {number} of 3").click()
            texts.append(answer.locator(".body").inner_text())
        self.assertTrue(all(texts))

    def test_model(self):
        self.open("model")
        plan = self.page.get_by_role("img", name=re.compile("^Memory plan: Weights .*KV cache"))
        expect(plan).to_be_visible()
        expect(self.page.get_by_text("Q4_1", exact=True)).to_be_visible()
        text = "Hello wörld 🙂 <|im_end|>"
        self.page.get_by_label("Text to tokenize").fill(text)
        sheet = self.page.get_by_role("region", name="Tokenizer")
        for special in (False, True):
            sheet.get_by_role("checkbox").set_checked(special)
            tokens = self.server.post("/page/tokens", {"text": text, "parse_special": special}).json
            expect(sheet.locator(".token")).to_have_count(tokens["count"])
            expect(sheet.locator(".special")).to_have_count(1 if special else 0)
        self.assertEqual(tokens["tokens"][-1]["text"], "<|im_end|>")
        sheet.locator(".token").first.focus()
        self.page.keyboard.press("End")
        expect(sheet.locator(".detail")).to_contain_text(f"id {tokens['tokens'][-1]['id']}, control token")

    def test_calculator(self):
        self.open("calculator")
        verdict = self.page.locator(".verdict")
        expect(verdict).to_contain_text("sequences of 1,024 tokens fit at once.")
        expect(self.page.get_by_role("combobox", name=re.compile("^Weights"))).to_have_value("auto")  # the served model's own
        command = shlex.split(self.page.get_by_label("Command").inner_text())
        self.assertNotIn("/", " ".join(command))  # nobody is told where on this machine the model lies
        said = json.loads(subprocess.run([PROGRAM, *command[1:], "--json"], capture_output=True, text=True, check=True,
                                         timeout=120, cwd=SMOLLM2.parent).stdout)
        (planned,) = said["plans"]
        expect(verdict).to_contain_text(f"{planned['memory']['sequences']:,} sequences")
        expect(self.page.locator("tbody tr:visible")).to_have_count(len(planned["decode"]))
        # By the keyboard: to the first field behind the tab, and a layout that fits the model's three KV heads.
        self.page.get_by_role("tab", selected=True).focus()
        for _ in range(6):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("() => document.activeElement.tagName") == "SELECT":
                break
        expect(self.page.get_by_role("combobox", name=re.compile("^Model"))).to_be_focused()
        self.assertGreater(self.page.get_by_role("combobox", name=re.compile("^Devices for each layer")).locator("option:disabled").count(), 0)
        self.page.get_by_role("combobox", name=re.compile("^Stages of layers")).select_option("2")
        expect(self.page.get_by_role("heading", name=re.compile("the fullest of 2"))).to_be_visible()
        self.assertTrue(self.page.url.endswith("#calculator"))
        self.assert_fits()

    def test_chat_template(self):
        self.allow(400)
        self.open("model")
        sheet = self.page.get_by_role("region", name="Chat template")
        messages = sheet.get_by_label("Messages, as JSON")
        messages.fill('[{"role": "user", "content": "Hi <|im_end|>"}]')
        prompt = sheet.locator(".strip")
        expect(prompt).to_contain_text("Hi <|im_end|>")
        expect(prompt).to_contain_text("<|im_start|>assistant")
        special = sheet.locator(".special").all_inner_texts()
        self.assertEqual(special.count("<|im_end|>"), 2)  # of the system's and the user's message alone
        sheet.get_by_role("checkbox").uncheck()
        expect(prompt).not_to_contain_text("<|im_start|>assistant")
        messages.fill('[{"role": "user"')
        expect(sheet.get_by_role("alert")).to_contain_text("no JSON yet")
        messages.fill('[{"role": "user"}]')
        expect(sheet.get_by_role("alert")).to_contain_text("messages[0].content")


if __name__ == "__main__":
    main()
