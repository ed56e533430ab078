"""The playground's conversations in real Chromium: the list, versions of messages, answers that go on; and what
happens to all that when the page is loaded anew.

    serve_page_conversations_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import re

from conversation_support import ConversationTest
from page_support import NARROW, expect
from serve_support import main


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
        opener.click()
        self.delete(self.names().first.inner_text())
        undo = self.page.get_by_role("button", name="Undo")
        expect(undo).to_be_in_viewport(ratio=1)
        undo.click()
        expect(self.page.locator("article.answer")).to_have_count(1)


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
