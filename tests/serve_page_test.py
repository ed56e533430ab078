"""The page in real Chromium, against a simulated engine: the playground where time matters, errors, keyboard,
phone, the key.

    serve_page_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import re

from live_support import Load
from page_support import NARROW, PATIENCE, PlaygroundTest, expect
from serve_support import ServerTest, main, wait_until


class Slow(PlaygroundTest):
    """Where something is to be done while an answer comes: it takes minutes."""

    flags = ("--max-model-len", 8192)
    simulate = 20

    def test_stop_and_regenerate(self):
        self.open()
        self.ask_for_much()
        self.send("Go on for ever")
        self.await_speed()
        self.page.get_by_role("button", name="Stop").click()
        answer = self.await_answer()
        self.assertRegex(self.stats(answer), r"tokens/s · [\d,]+ tokens?, \d+ in.* · stopped")
        self.server.await_idle()
        self.set_parameter("max_tokens", 5)
        answer.get_by_role("button", name="Regenerate").click()
        expect(answer.locator(".stats")).to_contain_text("5 tokens")
        expect(self.page.locator("article.answer")).to_have_count(1)

    def test_reload_in_mid_answer(self):
        self.open()
        self.ask_for_much()
        self.send("Tell me everything")
        self.await_speed()
        self.server.await_running()
        self.reload()
        self.server.await_idle()
        answer = self.answer()
        expect(answer.locator(".stats")).to_contain_text("cut off")
        self.assertNotEqual(answer.locator(".body").inner_text().strip(), "")
        expect(self.page.locator(".message")).to_contain_text("Tell me everything")
        self.assertEqual(self.page.locator("#parameter-max_tokens").input_value(), "8000")
        self.set_parameter("max_tokens", 3)
        answer.get_by_role("button", name="Regenerate").click()
        expect(self.answer().locator(".stats")).to_contain_text("3 tokens")

    def test_keyboard_alone(self):
        self.open()
        press = self.page.keyboard.press
        expect(self.page.locator("#prompt")).to_be_focused()
        self.page.keyboard.type("First line")
        press("Shift+Enter")
        self.page.keyboard.type("second line")
        press("Enter")
        self.await_speed()
        press("Escape")
        self.assertIn("stopped", self.stats(self.await_answer()))
        self.assertEqual(self.page.locator(".message .prose").text_content(), "First line\nsecond line")
        expect(self.page.locator("#prompt")).to_be_focused()
        for _ in range(40):  # back to the tabs
            press("Shift+Tab")
            if self.page.evaluate("() => document.activeElement.getAttribute('role')") == "tab":
                break
        press("ArrowLeft")  # from the first to the last
        expect(self.page.get_by_role("tab", selected=True)).to_have_text("Calculator")
        expect(self.page.get_by_role("tab", selected=True)).to_be_focused()
        self.page.get_by_role("tab", selected=True).press("ArrowLeft")
        expect(self.page.get_by_role("tab", selected=True)).to_have_text("Model")
        press("Tab")
        expect(self.page.locator("#theme")).to_be_focused()
        press("Enter")  # the colour scheme
        expect(self.page.locator("html")).to_have_attribute("data-theme", "light")


class Simulated(PlaygroundTest):
    flags = ("--max-model-len", 2048, "--max-num-seqs", 256)
    simulate = 5

    def test_error_is_shown_where_it_belongs(self):
        self.allow(400)
        self.open()
        self.set_parameter("temperature", -3)
        self.send("Hello")
        error = self.page.get_by_role("alert")
        expect(error).to_contain_text("The request is wrong in temperature")
        expect(error).to_contain_text("-3 is not a number in [0, 1000]")
        error.get_by_role("button", name="Go to temperature").click()
        field = self.page.locator("#parameter-temperature")
        expect(field).to_be_focused()
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_accessible_description("-3 is not a number in [0, 1000]")
        field.fill("0.5")
        expect(field).to_have_accessible_description(re.compile("always the most probable token"))
        expect(field).not_to_have_attribute("aria-invalid", "true")
        self.set_parameter("top_k", "many")
        self.send("Hello again")
        expect(self.page.locator(".problem")).to_contain_text('"many" is no whole number')
        expect(self.page.locator("#parameter-top_k")).to_be_focused()

    def test_an_error_of_a_grammar_is_shown_at_its_place(self):
        self.allow(400)
        self.open()
        field = self.page.locator("#parameter-structured_outputs")
        field.evaluate("(field) => { field.closest('details').open = true; }")
        selected = "(field) => field.value.slice(field.selectionStart, field.selectionEnd)"
        for text, message, place in ((' root ::= "a"\n  foo', 'there is no rule "foo"', "f"),
                                     ("/a(?<=b)c/", "look-behind", "("),
                                     ('{"type": "strin"}', "strin is no type", "")):
            field.fill(text)
            self.send("Hello")
            error = self.await_answer().get_by_role("alert")
            expect(error).to_contain_text("The request is wrong in structured_outputs")
            expect(error).to_contain_text(message)
            error.get_by_role("button", name="Go to structured_outputs").click()
            expect(field).to_be_focused()
            self.assertEqual(field.evaluate(selected), place)
        field.fill('{"type": x}')
        self.send("Hello")
        problem = self.page.get_by_role("alert").filter(has_text="this is no JSON")
        expect(problem).to_contain_text("The request is wrong")
        expect(field).to_be_focused()

    def test_an_answer_is_never_markup(self):
        self.open()
        text = "<img src=x onerror=alert(1)> <b>bold</b>\n  two spaces"
        self.set_parameter("max_tokens", 2)
        self.send(text)
        self.await_answer()
        self.assertEqual(self.page.locator(".message .prose").text_content(), text)
        self.reload()
        expect(self.page.locator(".message .prose")).to_have_text(text, use_inner_text=True)
        self.assertEqual(self.page.locator(".talk img, .talk b").count(), 0)

    def test_first_paint_is_small(self):
        """What is waited for before anything is painted, and all that the page loads before anybody writes."""
        responses = []
        self.page.on("response", lambda response: responses.append(response))
        self.open()
        expect(self.page.locator("#prompt")).to_be_focused()
        self.page.wait_for_load_state("networkidle")
        sizes = {each.url.rsplit("/", 1)[1]: len(each.body()) for each in responses}
        blocking = self.page.evaluate("""() => performance.getEntriesByType('resource')
            .filter(({renderBlockingStatus}) => renderBlockingStatus === 'blocking').map(({name}) => name.split('/').at(-1))""")
        self.assertEqual(blocking, [])  # the page has its style sheets in itself
        self.assertLess(sizes[""], 48_000)
        self.assertLess(sum(sizes.values()), 400_000, sizes)

    def test_colour_schemes(self):
        self.open()
        colour = "() => getComputedStyle(document.body).backgroundColor"
        has_colour = lambda expected: expect(self.page.locator("body")).to_have_css("background-color", expected)
        light = self.page.evaluate(colour)
        root = self.page.locator("html")
        switch = self.page.locator("#theme")
        switch.click()
        expect(root).to_have_attribute("data-theme", "light")
        has_colour(light)
        switch.click()
        expect(root).to_have_attribute("data-theme", "dark")
        dark = self.page.evaluate(colour)
        self.assertNotEqual(dark, light)
        self.reload()
        has_colour(dark)
        switch.click()
        has_colour(light)
        self.page.emulate_media(color_scheme="dark")
        has_colour(dark)

    def test_behind_a_prefix(self):
        """As behind a proxy that serves it at /some/where/: all addresses are relative."""
        elsewhere = []

        def forward(route):
            url = route.request.url
            if "/some/where/" not in url:
                elsewhere.append(url)
            if "engine/live" in url:  # which has no end; asked for where the answer takes its time
                route.fulfill(content_type="text/event-stream", body="")
            else:
                route.fulfill(response=route.fetch(url=url.replace("/some/where/", "/"), timeout=PATIENCE))
        self.context.route("**/*", forward)
        self.page.goto(f"{self.server.url}/some/where/")
        self.set_parameter("max_tokens", 3)
        self.send("Hello")
        self.assertIn("3 tokens", self.stats(self.await_answer()))
        self.context.unroute_all(behavior="wait")
        self.assertEqual(elsewhere, [])

    def test_every_control_has_a_name(self):
        nameless = """() => [...document.querySelectorAll('button, input, textarea, select, [tabindex="0"]')]
            .filter((each) => !each.labels?.length && !each.getAttribute('aria-label') &&
                              !each.getAttribute('aria-labelledby') && !each.textContent.trim())
            .map((each) => each.outerHTML)"""
        self.open()
        self.assertEqual(self.page.evaluate(nameless), [])
        self.open("model")
        expect(self.page.locator(".token").first).to_be_visible()
        self.assertEqual(self.page.evaluate(nameless), [])

    def test_numbers_are_written_for_people(self):
        self.open()
        written = self.page.evaluate("""async () => {
          const {duration, percent} = await import('./page/format.js');
          return [[0.25, 59.9, 119.4, 119.7].map(duration), [0, 0.0002, 0.05, 0.5].map(percent)];
        }""")
        self.assertEqual(written, [["250 ms", "59.9 s", "1 min 59 s", "2 min 0 s"], ["0%", "<0.1%", "5.0%", "50%"]])

    def test_copying_works_without_a_clipboard(self):
        """As on another machine without TLS, where pages have none: in a dialog, and outside of one."""
        self.context.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        self.open()
        self.set_parameter("max_tokens", 2)
        self.send("Hello there")
        answer = self.await_answer()
        box = self.page.locator("#prompt")
        answer.get_by_role("button", name="Code").click()
        copy = self.page.get_by_role("dialog").get_by_role("button", name="Copy")
        copy.click()
        expect(self.page.get_by_role("dialog").get_by_role("button", name="Copied")).to_be_focused()
        self.page.keyboard.press("Escape")
        box.press("Control+V")
        self.assertIn("Hello there", box.input_value())
        self.assertIn("curl", box.input_value())
        box.fill("")
        self.page.locator(".message").get_by_role("button", name="Copy").click()
        box.press("Control+V")
        self.assertEqual(box.input_value(), "Hello there")

    def test_while_200_requests_run(self):
        with Load(self.server, 200, max_tokens=1900, prompt="Background"):
            self.server.await_running(200)
            self.open()
            self.set_parameter("max_tokens", 20)
            self.send("Is anybody there?")
            self.assertIn("20 tokens", self.stats(self.await_answer()))
            self.page.get_by_role("tab", name="Model").click()
            self.page.get_by_label("Text to tokenize").fill("one two three")
            expect(self.page.get_by_role("region", name="Tokenizer").locator(".token")).to_have_count(3)
            self.server.await_running(190)  # of which some may have ended just now and are asked for again
        self.server.await_idle()


class Queue(PlaygroundTest):
    flags = ("--max-model-len", 4096, "--max-num-seqs", 2, "--max-num-batched-tokens", 16)
    simulate = 50

    def test_who_waits_is_told_for_what(self):
        self.open()
        self.set_parameter("max_tokens", 3)
        with Load(self.server, 5, max_tokens=1900):
            wait_until(lambda: self.server.metrics()['quire_requests{state="waiting"}'] == 3, "three wait")
            self.send("Hello")
            expect(self.answer().locator(".stats")).to_have_text(re.compile("^queued, 3 ahead"))
        self.assertIn("3 tokens", self.stats(self.await_answer()))

    def test_a_long_prompt_is_told_as_it_is_read(self):
        self.open()
        self.set_parameter("max_tokens", 2)
        self.send("word " * 3000)  # for nine seconds
        await_text = self.note_texts(self.answer().locator(".stats"))
        await_text(r"^reading the prompt [1-9]\d?(\.\d)?%$")
        self.assertIn("2 tokens", self.stats(self.await_answer()))

    def test_the_time_is_told_from_how_fast_requests_end(self):
        self.open()
        texts = self.page.evaluate("""async () => {
          const {waitingText} = await import('./page/waiting.js');
          const state = (time_s, requests_ended, waiting, num_waiting, running = []) =>
            ({time_s, totals: {requests_ended}, waiting: waiting.map((id) => ({id})), num_waiting, running});
          const ids = [...Array(96).keys()].map((i) => `chatcmpl-${i}`);
          const first = state(10, 100, [], 0);
          const mine = {id: 'chatcmpl-me', computed_tokens: 38, prompt_tokens: 100};
          return [
            waitingText(state(30, 125, [...ids, 'chatcmpl-me'], 97), 'me', first),
            waitingText(state(30, 100, ['chatcmpl-me'], 1), 'me', first),
            waitingText(state(30, 100, ids, 500), 'me', first),
            waitingText(state(30, 100, [], 0, [mine]), 'me', first),
            waitingText(state(30, 100, [], 0), 'me', first),
          ];
        }""")
        self.assertEqual(texts, ["queued, 96 ahead, about 1 min 18 s", "queued, 0 ahead",
                                 "queued, more than 96 ahead", "reading the prompt 38%", None])


class Phone(PlaygroundTest):
    flags = ("--max-model-len", 512)
    simulate = 1
    viewport = NARROW
    color_scheme = "dark"

    def test_playground(self):
        self.open()
        self.assert_fits()
        self.page.get_by_role("button", name="Parameters").click()
        self.assert_fits()
        self.set_parameter("max_tokens", 40)
        self.page.keyboard.press("Escape")
        expect(self.page.locator("#parameters")).to_be_hidden()
        self.send("A_word_that_is_long_enough_to_be_wider_than_the_window_of_a_phone_" * 3)
        self.await_answer()
        self.assert_fits()
        self.answer().get_by_role("button", name="Code").click()
        expect(self.page.get_by_role("dialog")).to_be_visible()
        self.assert_fits()

    def test_model(self):
        self.open("model")
        expect(self.page.get_by_role("region", name="Chat template").locator(".token").first).to_be_visible()
        self.assert_fits()


class Key(PlaygroundTest):
    flags = ("--max-model-len", 512)
    key = "sesame"

    def test_the_page_asks_for_it(self):
        self.allow(401)
        self.page.goto(self.server.url)
        field = self.page.get_by_label("API key")
        field.fill("abracadabra")
        field.press("Enter")
        expect(self.page.get_by_role("alert")).to_contain_text("That key is wrong")
        field = self.page.get_by_label("API key")
        field.fill("sesame")
        field.press("Enter")
        self.set_parameter("max_tokens", 2)
        self.send("Hello")
        self.assertIn("2 tokens", self.stats(self.await_answer()))
        self.reload()  # the key is kept as long as the tab
        expect(self.page.locator("#prompt")).to_be_focused()
        self.assertEqual(self.server.request("GET", "/page/info", headers={"Authorization": ""}).status, 401)

    def test_on_a_phone_its_button_is_an_icon_with_a_name(self):
        self.allow(401)
        self.page.set_viewport_size(NARROW)
        self.page.goto(self.server.url)
        field = self.page.get_by_label("API key")
        field.fill("sesame")
        field.press("Enter")
        button = self.page.get_by_role("button", name="API key")
        expect(button).to_be_visible()
        bar, box = self.page.locator("header.bar").bounding_box(), button.bounding_box()
        self.assertGreater(box["y"], bar["y"])
        self.assertLess(box["y"] + box["height"], bar["y"] + bar["height"])
        self.assertLess(box["height"], 36)  # one line
        cut = self.page.locator("#tabs").evaluate("(tabs) => tabs.scrollWidth - tabs.clientWidth")
        self.assertEqual(cut, 0)  # every view is named whole
        self.assert_fits()

    def test_where_storage_is_forbidden_the_key_lasts_as_long_as_the_page(self):
        self.allow(401)
        self.context.add_init_script("""
            for (const name of ['sessionStorage', 'localStorage']) {
              Object.defineProperty(window, name, {get() { throw new DOMException('forbidden', 'SecurityError'); }});
            }""")
        self.page.goto(self.server.url)
        field = self.page.get_by_label("API key")
        field.fill("sesame")
        field.press("Enter")
        expect(self.page.locator("#prompt")).to_be_focused()
        self.page.reload()
        expect(self.page.get_by_label("API key")).to_be_visible()


class WithoutPage(ServerTest):
    flags = ("--disable-page",)

    def test_only_the_api_is_there(self):
        for path in ("/", "/page/app.js", "/page/info", "/page/calculator"):
            self.assertEqual(self.server.get(path).status, 404)
        self.assertEqual(self.server.get("/v1/models").status, 200)


if __name__ == "__main__":
    main()
