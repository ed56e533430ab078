"""Files in the playground's conversations in real Chromium: sent with a message, exported and imported; and presets.

    serve_page_files_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import json
import pathlib

from conversation_support import ConversationTest
from page_support import NARROW, expect
from serve_support import main, wait_until

MARKED = "Look:\n<!-- quire:user -->\n## not a heading of the file"


class Files(ConversationTest):
    def attach(self, *files):
        self.page.get_by_label("Text files", exact=True).set_input_files(
            [{"name": name, "mimeType": "text/plain", "buffer": data} for name, data in files])

    def test_text_files_go_with_a_message(self):
        bodies = self.bodies()
        self.begin()
        self.attach(("a.txt", "naïve\n".encode()), ("b.py", b"print('```')\n"))
        chips = self.page.get_by_role("group", name="Attached files").locator(".chip")
        expect(chips).to_have_count(2)
        self.attach(("c.txt", "\ufeffwide".encode("utf-16-le")))
        expect(chips).to_have_count(3)
        self.page.get_by_role("button", name="Remove a.txt").click()
        expect(chips).to_have_count(2)
        self.say("What do they do?")
        self.assertEqual(bodies[0]["messages"][-1]["content"],
                         "File b.py:\n````\nprint('```')\n````\n\nFile c.txt:\n```\nwide\n```\n\nWhat do they do?")
        expect(chips).to_have_count(0)
        self.reload()
        self.page.locator(".message summary", has_text="b.py").click()
        expect(self.page.locator(".message pre").first).to_have_text("print('```')\n")
        self.say("And now?", 1)
        self.assertIn("File b.py", bodies[1]["messages"][0]["content"])

    def test_files_are_dropped(self):
        self.begin()
        transfer = self.page.evaluate_handle("""() => {
          const transfer = new DataTransfer();
          transfer.items.add(new File(['dropped text'], 'dropped.md'));
          return transfer;
        }""")
        self.page.locator(".talk").dispatch_event("drop", {"dataTransfer": transfer})
        expect(self.page.locator(".composer .chip")).to_contain_text("dropped.md")
        expect(self.page.locator("#prompt")).to_be_focused()

    def test_what_is_no_text_is_refused_by_name(self):
        self.begin()
        self.attach(("picture.png", b"\x89PNG\r\n\x00\xff"), ("paper.pdf", b"%PDF-1.7"), ("long.txt", b"x" * (4 * 2**20 + 1)))
        errors = self.page.locator(".problem .error")
        expect(errors).to_have_count(3)
        expect(errors.nth(0)).to_contain_text("picture.png is no text")
        expect(errors.nth(1)).to_contain_text("paper.pdf is a PDF")
        expect(errors.nth(2)).to_contain_text("long.txt has 4.00 MiB; a file may have 4.00 MiB")
        expect(self.page.locator(".composer .chip")).to_have_count(0)

    def test_on_a_phone_a_refusal_is_in_view(self):
        self.begin("A question that is followed by an answer. " * 20)
        self.page.set_viewport_size(NARROW)
        self.page.evaluate("scrollTo(0, 0)")
        self.attach(("picture.png", b"\x89PNG\r\n\x00\xff"))
        error = self.page.locator(".problem .error")
        expect(error).to_contain_text("picture.png is no text")
        composer = self.page.locator(".composer .box")
        wait_until(lambda: error.bounding_box()["y"] + error.bounding_box()["height"] <= composer.bounding_box()["y"],
                   "the field to write in does not lie over it")


class Exchange(ConversationTest):
    def test_json_brings_everything_back(self):
        self.open()
        self.page.locator("#system-prompt").fill("Be brief.")
        self.set_parameter("max_tokens", 4)
        self.say("First")
        self.answer().get_by_role("button", name="Regenerate").click()
        self.assertIn("4 tokens", self.stats(self.await_answer()))
        text = self.text_of(self.answer())
        name, exported = self.export("First", "Export as JSON")
        self.assertEqual(name, "First.json")
        self.assertEqual(json.loads(exported)["format"], "quire-conversations")
        self.delete("First")
        self.page.locator("#system-prompt").fill("")
        self.import_file(exported, name)
        expect(self.answer().locator(".body")).to_have_text(text, use_inner_text=True)
        expect(self.page.get_by_role("group", name="Versions of the answer")).to_have_text("2/2")
        expect(self.page.locator("#system-prompt")).to_have_value("Be brief.")
        self.answer().get_by_role("button", name="Tokens").click()
        expect(self.answer().locator(".strip .token")).to_have_count(4)
        self.answer().get_by_role("button", name="Code").click()
        expect(self.page.get_by_role("dialog").locator("pre")).to_contain_text("v1/chat/completions")

    def test_all_at_once(self):
        self.begin("First")
        self.new()
        self.say("Second")
        self.page.get_by_role("button", name="Import, export").click()
        with self.page.expect_download() as download:
            self.page.get_by_role("menuitem", name="Export all as JSON").click()
        exported = json.loads(pathlib.Path(download.value.path()).read_text())
        self.assertEqual(sorted(each["name"] for each in exported["conversations"]), ["First", "Second"])

    def test_markdown_is_read_back(self):
        self.open()
        self.page.locator("#system-prompt").fill("Be brief.")
        self.set_parameter("max_tokens", 4)
        self.say(MARKED)
        answer = self.text_of(self.answer())
        name, exported = self.export("Look:", "Export as Markdown")
        self.assertEqual(name, "Look.md")
        self.assertTrue(exported.startswith("# Look:\n\n<!-- quire:system -->\n## System\n\nBe brief.\n"), exported)
        self.delete("Look:")
        self.import_file(exported, name)
        self.expect_texts(MARKED)
        self.assertEqual(self.texts(), [MARKED])
        self.assertEqual(self.answer().locator(".body").inner_text(), answer)
        expect(self.page.locator("#system-prompt")).to_have_value("Be brief.")
        expect(self.answer().get_by_role("button", name="Code")).to_have_count(0)
        self.say("Go on", 1)

    def test_a_file_that_is_wrong_is_refused_with_the_place(self):
        self.begin("First")
        _, exported = self.export("First", "Export as JSON")
        good = json.loads(exported)

        def broken(change):
            data = json.loads(exported)
            change(data["conversations"][0])
            return json.dumps(data)

        cases = [
            ("{", "it is no JSON"),
            ('{"format": "other"}', 'format: expected "quire-conversations"'),
            (json.dumps({**good, "version": 9}), "version: expected 1"),
            ("Just some text", "expected parts that begin with <!-- quire:user -->"),
            (broken(lambda each: each.update(mode="shout")), "conversations[0].mode: expected"),
            (broken(lambda each: each["messages"][1].update(parent="nobody")), "conversations[0].messages[1].parent: expected"),
            (broken(lambda each: each["messages"][1].update(role="user")), 'messages[1].role: expected "assistant"'),
            (broken(lambda each: each["messages"][1]["answer"].update(shown=3)), "messages[1].answer.shown: expected"),
            (broken(lambda each: each["messages"][1]["answer"]["choices"][0]["tokens"][0].update(top=[1])),
             "messages[1].answer.choices[0].tokens[0]: expected"),
            (broken(lambda each: each["messages"][1]["answer"]["request"].update(path="//evil.example/")), "answer.request: expected"),
        ]
        for text, expected in cases:
            with self.subTest(expected):
                self.page.get_by_role("button", name="Chat").click()
                self.new()
                self.import_file(text, "broken.json")
                expect(self.page.locator(".problem .error")).to_contain_text("broken.json was not imported")
                expect(self.page.locator(".problem .error")).to_contain_text(expected)
        expect(self.names()).to_have_count(1)


class Presets(ConversationTest):
    def save(self, name):
        self.page.locator("#parameters").get_by_role("button", name="Save").click()
        field = self.page.get_by_label("Name", exact=True)
        field.fill(name)
        field.press("Enter")
        expect(self.page.get_by_label("Preset", exact=True)).to_have_value(name)
        expect(self.page.locator("#parameters").get_by_role("button", name="Save")).to_be_focused()

    def test_system_prompt_and_parameters_by_name(self):
        self.open()
        self.page.locator("#system-prompt").fill("You are a pirate.")
        self.set_parameter("temperature", 1.5)
        self.save("Pirate")
        select = self.page.get_by_label("Preset", exact=True)
        expect(select).to_have_value("Pirate")
        self.page.locator("#system-prompt").fill("You are exact.")
        self.set_parameter("temperature", 0)
        self.set_parameter("seed", 7)
        self.save("Exact")
        self.reload()
        select.select_option("Pirate")
        expect(self.page.locator("#system-prompt")).to_have_value("You are a pirate.")
        self.assertEqual(self.page.locator("#parameter-temperature").input_value(), "1.5")
        self.assertEqual(self.page.locator("#parameter-seed").input_value(), "")
        bodies = self.bodies()
        self.set_parameter("max_tokens", 2)
        self.say("Hello")
        self.assertEqual(bodies[0]["messages"][0], {"role": "system", "content": "You are a pirate."})
        self.page.get_by_role("button", name="Delete the preset").click()
        expect(select.locator("option")).to_have_count(2)
        self.page.get_by_role("button", name="Undo").click()
        expect(select).to_have_value("Pirate")
        self.page.get_by_role("button", name="Delete the preset").click()
        expect(select).to_have_value("")
        self.reload()
        expect(select.locator("option")).to_have_text(["Choose one", "Exact"])


if __name__ == "__main__":
    main()
