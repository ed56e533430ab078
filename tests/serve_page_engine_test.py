"""The page's tab on the engine in real Chromium, against a simulated engine.

    serve_page_engine_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import re

from live_support import Load
from page_support import NARROW, PageTest, expect
from serve_support import Server, free_port, main, wait_until

# How many colours a canvas shows.
COLOURS = """(canvas) => {
  const copy = document.createElement('canvas');
  copy.width = canvas.width;
  copy.height = canvas.height;
  const pen = copy.getContext('2d', {willReadFrequently: true});
  pen.drawImage(canvas, 0, 0);
  const {data} = pen.getImageData(0, 0, copy.width, copy.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 0) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return seen.size;
}"""
# Frames a second, of two seconds and of at least LEAST frames, however long these take.
FRAMES = """(least) => new Promise((resolve) => {
  let frames = -1;
  let start = 0;
  const next = (now) => {
    if (++frames === 0) start = now;
    if (frames < least || now - start < 2000) requestAnimationFrame(next);
    else resolve(1000 * frames / (now - start));
  };
  requestAnimationFrame(next);
})"""
LEAST = 10


class EngineTab(PageTest):
    flags = ("--max-num-seqs", 6)
    simulate = 10

    def figure(self, name):
        return self.page.locator(".figures div", has_text=name).locator("dd")

    def canvas(self, section):
        return self.page.locator(f"section[aria-labelledby={section}] canvas")

    def await_picture(self, section, colours):
        wait_until(lambda: self.canvas(section).evaluate(COLOURS) >= colours, f"{section} is drawn")

    def test_it_shows_who_runs_and_who_waits(self):
        self.open("engine")
        expect(self.page.get_by_text("Nothing runs.")).to_be_visible()
        with Load(self.server, 8):
            expect(self.figure("Running")).to_have_text("6 of 6")
            expect(self.figure("Waiting")).to_have_text("2")
            expect(self.figure("Output tokens/s")).to_have_text(re.compile(r"^[1-9][\d,.]*$"))
            self.await_picture("slots", 8)
            self.await_picture("blocks", 8)
            queue = self.page.get_by_role("table", name="The queue, the next one first")
            expect(queue.locator("tbody tr")).to_have_count(2)
            expect(queue.locator("tbody tr").first).to_contain_text("all slots are taken")
            expect(queue.locator("tbody tr").last).to_contain_text("behind earlier requests")
            expect(self.page.locator(".connection")).to_have_text("Live")
            self.page.get_by_role("button", name="Steps", exact=True).click()
            self.await_picture("slots", 8)
        expect(self.page.get_by_text("Nothing runs.")).to_be_visible()

    def test_a_request_tells_why(self):
        self.open("engine")
        with Load(self.server, 7):
            table = self.page.get_by_role("table", name="Requests that run")
            expect(table.locator("tbody tr")).to_have_count(6)
            # It has given output, of which the dialog is to tell: that is not asked for again.
            expect(table.locator("tbody tr").first.locator("td").nth(1)).to_have_text(re.compile(r"^[1-9]\d+ of "))
            table.get_by_role("button").first.press("Enter")
            dialog = self.page.get_by_role("dialog")
            expect(dialog.locator("table.why tr").first).to_be_visible()
            expect(dialog).to_contain_text("still runs")
            expect(dialog).to_contain_text("output")
            self.page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
            # And from the picture.
            wait_until(self._click_for_dialog, "a click on a slot opens it")

    def _click_for_dialog(self):
        """In what ran just now and, where that comes late, what ran some seconds ago."""
        dialog = self.page.get_by_role("dialog")
        canvas = self.canvas("slots")
        width = canvas.evaluate("(canvas) => canvas.clientWidth")
        for back in (30, width / 4, width / 2):
            if dialog.count() == 0:
                canvas.click(position={"x": width - back, "y": 45})
        return dialog.count() == 1

    def test_it_looks_only_while_it_is_seen(self):
        begun, ended = [], []
        self.page.on("request", lambda request: begun.append(request.url))
        self.page.on("requestfailed", lambda request: ended.append(request.url))

        def await_streams(urls, count):
            wait_until(lambda: self.page.wait_for_timeout(50) or sum("engine/live" in url for url in urls) == count,
                       f"{count} streams have begun or ended")

        self.open("engine")
        expect(self.page.locator(".connection")).to_have_text("Live")
        self.page.get_by_role("tab", name="Model").click()
        await_streams(ended, 1)
        self.page.get_by_role("tab", name="Engine").click()
        await_streams(begun, 2)
        expect(self.page.locator(".connection")).to_have_text("Live")

    def test_in_the_background_it_waits_until_it_is_seen(self):
        asked = []
        self.page.on("request", lambda request: asked.append(request.url))
        self.context.add_init_script("Object.defineProperty(document, 'hidden', {value: true, configurable: true});")
        self.open("engine")
        self.page.wait_for_timeout(500)
        self.assertEqual([url for url in asked if "engine/live" in url], [])
        expect(self.page.locator(".connection")).to_have_text("Connecting …")
        self.page.evaluate("""() => {
          delete document.hidden;
          document.dispatchEvent(new Event('visibilitychange'));
        }""")
        expect(self.page.locator(".connection")).to_have_text("Live")

    def test_the_scheme_can_change(self):
        self.open("engine")
        with Load(self.server, 6):
            self.await_picture("blocks", 8)
            self.page.emulate_media(color_scheme="dark")
            self.await_picture("blocks", 8)
            self.await_picture("slots", 8)


NGRAMS = '{"method": "ngram", "num_speculative_tokens": 32, "prompt_lookup_min": 1, "prompt_lookup_max": 2}'


class Speculation(PageTest):
    flags = ("--max-num-seqs", 6, "--speculative-config", NGRAMS)
    simulate = 2

    def guess(self):
        """Has it guess, whatever that gives: of few tokens, so that they come again."""
        reply = self.server.post("/v1/completions", {"prompt": "a b a b a b", "max_tokens": 100, "speculation": 8,
                                                     "structured_outputs": {"regex": "[ab ]{400}"}})
        self.assertEqual(reply.status, 200, reply.body)

    def test_it_shows_what_guesses_give(self):
        self.open("engine")
        panel = self.page.get_by_role("region", name="Speculation")
        expect(panel.get_by_text("Nothing has been guessed yet.")).to_be_visible()
        expect(panel).to_contain_text("ngram, up to 32 tokens")
        self.guess()
        expect(panel.get_by_text("Nothing has been guessed yet.")).to_be_hidden()
        expect(panel.get_by_role("list").get_by_role("listitem")).to_have_count(32)
        expect(panel.locator("div", has_text="Guesses right").locator("dd").last).not_to_have_text("–")
        told = self.server.get("/engine/state").json["speculation"]
        for name, text in (("Tokens in a step with guesses", r"^[1-9][\d.]*$"),
                           ("Guesses right", rf"^<?[\d.]+% of {told['draft_tokens']:,}$"),
                           ("Time to guess", r"^[\d.]+ (µs|ms|s)$"), ("Steps with guesses took", r"^[\d.]+ (ms|s)$"),
                           ("Of that, for guesses", r"^[\d.]+ (µs|ms|s)$"),
                           ("Speed-up", r"^([\d.]+ ×|not known yet)$")):
            figure = panel.locator(".figures div", has=self.page.get_by_text(name, exact=True))
            expect(figure.locator("dd")).to_have_text(re.compile(text))


class NoSpeculation(PageTest):
    simulate = 10

    def test_the_panel_is_not_there(self):
        self.open("engine")
        expect(self.page.locator(".connection")).to_have_text("Live")
        expect(self.page.get_by_text("Nothing runs.")).to_be_visible()
        expect(self.page.get_by_role("heading", name="Speculation")).to_be_hidden()


class SpeculationOnAPhone(Speculation):
    viewport = NARROW
    color_scheme = "dark"

    def test_it_shows_what_guesses_give(self):
        self.guess()
        super().open("engine")
        expect(self.page.get_by_role("list", name="Guesses that were right, by place").get_by_role("listitem"))\
            .to_have_count(32)
        self.assert_fits()


class Phone(PageTest):
    viewport = NARROW
    color_scheme = "dark"
    simulate = 10

    def test_it_fits(self):
        self.open("engine")
        with Load(self.server, 5):
            expect(self.page.get_by_role("table", name="Requests that run").locator("tbody tr")).to_have_count(5)
            self.assert_fits()


class ManyRequests(PageTest):
    flags = ("--max-num-seqs", 256)
    simulate = 20

    def test_200_run_smoothly(self):
        self.open("engine")
        with Load(self.server, 200, prompt="hello"):
            expect(self.page.locator(".figures dd").first).to_have_text("200 of 256")
            expect(self.page.get_by_text("and 160 more")).to_be_visible()
            # It goes on being painted; how fast is told, and no matter of passing: the machine may be busy.
            print(f"{self.page.evaluate(FRAMES, LEAST):.0f} frames a second with 200 requests")
            expect(self.page.locator(".connection")).to_have_text("Live")


class Restart(PageTest):
    simulate = 10

    def test_it_comes_back_and_says_so(self):
        self.allow(503)
        self.allowed.append("net::ERR_")  # while nobody is there
        port = free_port()
        first = Server("--port", port, simulate=10)
        self.addCleanup(lambda: first.process.poll() is None and first.kill())
        first.post("/v1/completions", {"prompt": "Hello", "max_tokens": 5, "ignore_eos": True})
        self.page.goto(f"http://127.0.0.1:{port}/#engine")
        expect(self.page.locator(".connection")).to_have_text("Live")
        first.stop()
        expect(self.page.locator(".connection")).to_contain_text("Trying again")
        with Server("--port", port, simulate=10):
            expect(self.page.locator(".connection")).to_have_text("Live")
            expect(self.page.locator("#notice")).to_have_text("The server has restarted.")


if __name__ == "__main__":
    main()
