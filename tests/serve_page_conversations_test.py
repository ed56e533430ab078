"""The playground's conversations in real Chromium: the list, versions of messages, answers that go on, files,
export and import, presets; and what happens to all that when the page is loaded anew.

    serve_page_conversations_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import json
import pathlib
import re

from page_support import NARROW, PlaygroundTest, expect
from serve_support import main

MARKED = "Look:\n<!-- quire:user -->\n## not a heading of the file"


class ConversationTest(PlaygroundTest):
    flags = ("--max-model-len", 2048)
    simulate = 1

    def bodies(self):
        """The bodies of the chats that are sent from now on."""
        bodies = []
        self.page.on("request", lambda request: bodies.append(request.post_data_json)
                     if request.url.endswith("completions") else None)
        return bodies

    def say(self, text, index=-1):
        self.send(text)
        return self.await_answer(index)

    def begin(self, *texts):
        self.open()
        self.set_parameter("max_tokens", 4)
        for index, text in enumerate(texts):
            self.say(text, index)

    def names(self):
        return self.page.locator(".conversations .name")

    def menu(self, name, entry):
        self.page.get_by_role("button", name=f"{name}: rename, export, delete").click()
        self.page.get_by_role("menuitem", name=entry, exact=True).click()

    def new(self):
        self.page.get_by_role("button", name="New conversation").click()

    def delete(self, name):
        """Deletes a conversation, and waits until that can be undone: the button for it takes the focus."""
        self.menu(name, "Delete")
        expect(self.page.locator("#notice")).to_contain_text(f"“{name}” deleted")
        expect(self.page.get_by_role("button", name="Undo")).to_be_focused()

    def import_file(self, text, name):
        self.page.get_by_label("Files to import").set_input_files(
            {"name": name, "mimeType": "text/plain", "buffer": text.encode()})

    def arrows(self, what):
        return self.page.get_by_role("group", name=f"Versions of the {what}")

    def export(self, name, entry):
        with self.page.expect_download() as download:
            self.menu(name, entry)
        return download.value.suggested_filename, pathlib.Path(download.value.path()).read_text(encoding="utf-8")


class List(ConversationTest):
    def test_conversations_are_kept_named_and_found(self):
        self.begin("The first question\nwith a second line", "And more about zebras")
        self.new()
        expect(self.page.locator(".welcome")).to_be_visible()
        self.say("Another question")
        expect(self.names()).to_have_text(["Another question", "The first question"])
        expect(self.page.locator(".conversations .current")).to_have_text("Another question")
        self.reload()
        expect(self.names()).to_have_text(["Another question", "The first question"])
        self.expect_texts("Another question")
        self.page.get_by_role("searchbox").fill("ZEBRAS about")
        expect(self.names()).to_have_text(["The first question"])
        self.names().first.click()
        expect(self.page.locator("article.answer")).to_have_count(2)
        expect(self.page.locator(".message .prose").last).to_have_text("And more about zebras")
        self.page.get_by_role("searchbox").fill("no such thing")
        expect(self.page.locator(".history [role=status]")).to_have_text("No conversation says that.")

    def test_rename(self):
        self.begin("A question")
        for name in ("Mine", "Yours"):  # while it is open, and while another one is
            old = self.names().last.inner_text()
            self.menu(old, "Rename")
            field = self.page.get_by_label("Name", exact=True)
            expect(field).to_be_focused()
            field.fill(name)
            field.press("Enter")
            expect(self.names().last).to_have_text(name)
            self.new()
        self.reload()
        expect(self.names()).to_have_text(["Yours"])
        self.names().first.click()
        self.expect_texts("A question")
        self.say("More", 1)
        expect(self.names()).to_have_text(["Yours"])

    def test_deleting_can_be_undone(self):
        self.begin("Kept", )
        self.new()
        self.say("Deleted by accident")
        text = self.text_of(self.answer())
        self.delete("Deleted by accident")
        expect(self.names()).to_have_text(["Kept"])
        expect(self.page.locator(".welcome")).to_be_visible()
        self.page.keyboard.press("Enter")
        expect(self.names()).to_have_text(["Deleted by accident", "Kept"])
        expect(self.answer().locator(".body")).to_have_text(text, use_inner_text=True)
        self.page.get_by_role("button", name="Import, export").click()
        self.page.get_by_role("menuitem", name="Delete all").click()
        expect(self.names()).to_have_count(0)
        self.page.get_by_role("button", name="Undo").click()
        expect(self.names()).to_have_count(2)
        self.expect_texts("Deleted by accident")
        self.delete("Kept")
        expect(self.names()).to_have_count(1)
        self.page.keyboard.press("Escape")
        expect(self.page.locator(".notice")).not_to_have_class(re.compile("shown"))
        self.reload()
        expect(self.names()).to_have_text(["Deleted by accident"])

    def test_two_tabs_see_the_same_list(self):
        self.begin("Here")
        other = self.context.new_page()
        other.goto(self.server.url)
        expect(other.locator(".conversations .name")).to_have_text(["Here"])
        self.new()
        self.say("There")
        expect(other.locator(".conversations .name")).to_have_text(["There", "Here"])
        other.get_by_role("button", name="There: rename, export, delete").click()
        other.get_by_role("menuitem", name="Delete").click()
        expect(self.names()).to_have_text(["Here"])
        other.close()
        self.say("It is still open here", 1)  # and so comes back as a whole
        expect(self.names()).to_have_text(["There", "Here"])
        self.reload()
        self.expect_texts("There", "It is still open here")

    def test_where_the_browser_keeps_nothing(self):
        self.context.add_init_script("""
            Object.defineProperty(window, 'indexedDB', {get() { throw new DOMException('forbidden', 'SecurityError'); }});""")
        self.begin("One")
        self.new()
        self.say("Two")
        self.names().last.click()
        self.expect_texts("One")
        self.delete("Two")
        self.page.get_by_role("button", name="Undo").click()
        expect(self.names()).to_have_text(["Two", "One"])
        self.reload()
        expect(self.page.locator(".history [role=status]")).to_contain_text("This browser keeps nothing")

    def test_what_the_browser_could_not_keep_is_said(self):
        self.context.add_init_script("""
            IDBObjectStore.prototype.put = function() { this.transaction.abort(); };
            IDBTransaction.prototype.commit = () => {};""")
        self.begin("Too much")
        expect(self.page.get_by_role("alert").first).to_contain_text("did not keep the conversation")


class Versions(ConversationTest):
    def test_edit_and_resend(self):
        bodies = self.bodies()
        self.begin("First", "Second", "Third")
        self.page.locator(".message").nth(1).get_by_role("button", name="Edit").click()
        field = self.page.get_by_role("textbox", name="Another version")
        expect(field).to_have_value("Second")
        field.fill("Changed")
        field.press("Enter")
        self.await_answer(1)
        expect(self.page.locator("article.answer")).to_have_count(2)
        self.assertEqual([each["content"] for each in bodies[3]["messages"] if each["role"] == "user"], ["First", "Changed"])
        expect(self.arrows("message")).to_have_text("2/2")
        self.arrows("message").get_by_role("button", name="Previous version").click()
        self.expect_texts("First", "Second", "Third")
        expect(self.arrows("message").get_by_role("button", name="Next version")).to_be_focused()
        self.reload()
        expect(self.page.locator("article.answer")).to_have_count(3)
        self.page.keyboard.press("Escape")
        self.arrows("message").get_by_role("button", name="Next version").click()
        self.expect_texts("First", "Changed")
        self.say("Fourth", 2)
        self.assertEqual([each["content"] for each in bodies[4]["messages"] if each["role"] == "user"], ["First", "Changed", "Fourth"])

    def test_escape_leaves_a_message_as_it_was(self):
        self.begin("First")
        edit = self.page.locator(".message").get_by_role("button", name="Edit")
        edit.press("Enter")
        expect(self.page.get_by_role("textbox", name="Another version")).to_be_focused()
        self.page.keyboard.type(" and not sent")
        self.page.keyboard.press("Escape")
        self.expect_texts("First")
        expect(edit).to_be_focused()

    def test_regenerate_keeps_the_other_answers(self):
        self.begin("First", "Second")
        first = self.text_of(self.answer(0))
        for number in (2, 3):
            self.answer(0).get_by_role("button", name="Regenerate").click()
            expect(self.arrows("answer")).to_have_text(f"{number}/{number}")
            self.await_answer(0)
        self.expect_texts("First")  # what was said after the first one goes with it
        for _ in range(2):
            self.arrows("answer").get_by_role("button", name="Previous version").click()
        expect(self.answer(0).locator(".body")).to_have_text(first, use_inner_text=True)
        self.expect_texts("First", "Second")
        expect(self.arrows("answer").get_by_role("button", name="Previous version")).to_be_disabled()

    def test_a_new_version_and_what_goes_on_fail_by_name(self):
        self.allow(400)
        self.begin("First")
        self.set_parameter("temperature", -3)
        self.answer().get_by_role("button", name="Continue").click()
        expect(self.answer().get_by_role("alert")).to_contain_text("temperature")
        self.set_parameter("temperature", 0)
        self.answer().get_by_role("button", name="Continue").click()
        expect(self.answer().locator(".stats")).to_contain_text("4 tokens after 4")
        expect(self.page.get_by_role("alert")).to_have_count(0)

    def test_completions_have_versions(self):
        bodies = self.bodies()
        self.open()
        self.page.get_by_role("button", name="Completion").click()
        self.set_parameter("max_tokens", 4)
        first = self.say("Once upon").locator(".continuation").text_content()
        self.answer().get_by_role("button", name="Continue").click()
        expect(self.answer().locator(".stats")).to_contain_text("4 tokens after 4")
        self.assertEqual(bodies[1]["prompt"], "Once upon" + first)
        self.page.get_by_role("button", name="Edit").click()
        self.page.get_by_role("textbox", name="Another version").fill("Twice upon")
        self.page.keyboard.press("Enter")
        expect(self.arrows("message")).to_have_text("2/2")
        self.await_answer()
        self.assertEqual(bodies[2]["prompt"], "Twice upon")
        self.page.get_by_role("button", name="Chat").click()
        expect(self.page.locator(".welcome h1")).to_have_text("Talk to the model")


class Slow(ConversationTest):
    """Where something is to be done while an answer comes: it takes minutes."""

    flags = ("--max-model-len", 8192)
    simulate = 20

    def test_deleting_while_the_answer_runs(self):
        self.open()
        self.ask_for_much()
        self.send("Go on for ever")
        self.await_speed()
        self.delete("Go on for ever")
        self.server.await_idle()
        expect(self.names()).to_have_count(0)
        self.page.wait_for_timeout(1500)  # longer than what has changed is left unsaved
        self.reload()
        expect(self.page.locator(".welcome")).to_be_visible()
        expect(self.names()).to_have_count(0)

    def test_another_version_can_be_looked_at_while_one_is_written(self):
        self.begin("First")
        self.ask_for_much()
        self.answer().get_by_role("button", name="Regenerate").click()
        self.await_speed()
        self.arrows("answer").get_by_role("button", name="Previous version").click()
        expect(self.answer().locator(".stats")).to_contain_text("4 tokens")
        self.arrows("answer").get_by_role("button", name="Next version").click()
        expect(self.answer()).to_have_attribute("aria-busy", "true")
        self.page.get_by_role("button", name="Stop").click()
        expect(self.answer().locator(".stats")).to_contain_text("stopped")

    def test_a_stopped_answer_goes_on(self):
        bodies = self.bodies()
        self.open()
        self.ask_for_much()
        self.send("Tell me everything")
        self.await_speed()
        self.page.get_by_role("button", name="Stop").click()
        answer = self.await_answer()
        self.assertRegex(self.stats(answer), r"tokens/s · [\d,]+ tokens?, \d+ in.* · stopped")
        # Token by token, as Markdown may show the beginning of a longer text in another way.
        answer.get_by_role("button", name="Tokens", exact=True).click()
        before = answer.locator(".strip .token").all_inner_texts()
        self.assertGreater(len(before), 1)
        self.set_parameter("max_tokens", 6)
        answer.get_by_role("button", name="Continue").click()
        self.await_answer()
        self.assertRegex(self.stats(answer), r"6 tokens after \d")
        after = answer.locator(".strip .token").all_inner_texts()
        self.assertEqual(after[:len(before)], before)
        self.assertEqual(len(after), len(before) + 6)
        body = bodies[1]
        self.assertEqual((body["continue_final_message"], body["add_generation_prompt"]), (True, False))
        self.assertEqual(body["messages"][-1]["role"], "assistant")
        self.reload()
        expect(self.answer().locator(".stats")).to_contain_text(re.compile(r"6 tokens after \d"))


class RealModel(ConversationTest):
    simulate = None

    def test_an_answer_in_two_parts_says_what_it_would_have_in_one(self):
        question = "What is the capital of Japan?"
        whole = self.server.post("/v1/chat/completions", {
            "messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 40,
        }).json["choices"][0]["message"]["content"]
        self.open()
        self.set_parameter("temperature", 0)
        self.set_parameter("max_tokens", 3)
        answer = self.say(question)
        self.set_parameter("max_tokens", 37)
        answer.get_by_role("button", name="Continue").click()
        self.await_answer()
        expect(answer.locator(".body")).to_have_text(whole.strip(), use_inner_text=True)
        expect(answer.get_by_role("button", name="Continue")).to_have_count(0 if "complete" in self.stats(answer) else 1)


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


class Phone(ConversationTest):
    viewport = NARROW
    color_scheme = "dark"

    def test_the_list_lies_over_the_conversation(self):
        self.open()
        self.page.get_by_role("button", name="Parameters").click()
        self.set_parameter("max_tokens", 3)
        self.page.keyboard.press("Escape")
        expect(self.page.locator("#parameters")).to_be_hidden()
        self.say("A_word_that_is_long_enough_to_be_wider_than_the_window_of_a_phone_" * 3)
        opener = self.page.get_by_role("button", name="Conversations")
        expect(self.page.locator("#history")).to_be_hidden()
        opener.click()
        self.assert_fits()
        expect(self.page.locator("#history").get_by_role("button", name="Close")).to_be_focused()
        self.page.keyboard.press("Escape")
        expect(self.page.locator("#history")).to_be_hidden()
        expect(opener).to_be_focused()
        self.page.keyboard.press("Enter")
        self.new()
        expect(self.page.locator("#history")).to_be_hidden()
        opener.click()
        self.names().first.click()
        expect(self.page.locator("#history")).to_be_hidden()
        self.answer().get_by_role("button", name="Regenerate").click()
        expect(self.page.get_by_role("group", name="Versions of the answer")).to_have_text("2/2")
        self.await_answer()
        self.page.locator(".message").get_by_role("button", name="Edit").click()
        self.assert_fits()


class Keyboard(ConversationTest):
    def test_everything_has_a_name_and_the_list_works_by_keys(self):
        self.begin("First")
        self.new()
        self.say("Second")
        expect(self.page.get_by_role("heading", level=1)).to_have_text("Second")
        press = self.page.keyboard.press
        self.names().last.press("Tab")
        expect(self.page.get_by_role("button", name="First: rename, export, delete")).to_be_focused()
        press("Enter")
        expect(self.page.get_by_role("menuitem", name="Rename")).to_be_focused()
        press("ArrowUp")
        expect(self.page.get_by_role("menuitem", name="Delete")).to_be_focused()
        press("Escape")
        expect(self.page.get_by_role("menu")).to_have_count(0)
        expect(self.page.get_by_role("button", name="First: rename, export, delete")).to_be_focused()
        press("Enter")
        for entry in ("Rename", "Export as Markdown", "Export as JSON", "Delete"):
            expect(self.page.get_by_role("menuitem", name=entry)).to_be_focused()
            if entry != "Delete":
                press("ArrowDown")
        press("Enter")
        expect(self.names()).to_have_text(["Second"])
        expect(self.page.get_by_role("button", name="Undo")).to_be_focused()
        press("Enter")
        expect(self.names()).to_have_text(["Second", "First"])
        nameless = """() => [...document.querySelectorAll('button, input, textarea, select, [tabindex="0"]')]
            .filter((each) => !each.labels?.length && !each.getAttribute('aria-label') &&
                              !each.getAttribute('aria-labelledby') && !each.textContent.trim())
            .map((each) => each.outerHTML)"""
        self.assertEqual(self.page.evaluate(nameless), [])


if __name__ == "__main__":
    main()
