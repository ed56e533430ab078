"""What tests of the playground's conversations share."""

import pathlib

from page_support import PlaygroundTest, expect


class ConversationTest(PlaygroundTest):
    flags = ("--max-model-len", 2048)
    simulate = 1

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
