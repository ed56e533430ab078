"""The page's map of the KV blocks in real Chromium: each request that holds blocks is to be seen,
however large the pool is.

    serve_page_blocks_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import re

from live_support import Load
from page_support import PageTest, expect
from serve_support import main, wait_until

# The colours of requests that a canvas shows, as "h" of HSL: what is grey is no request.
HUES = """(canvas) => {
  const copy = document.createElement('canvas');
  copy.width = canvas.width;
  copy.height = canvas.height;
  const pen = copy.getContext('2d', {willReadFrequently: true});
  pen.drawImage(canvas, 0, 0);
  const {data} = pen.getImageData(0, 0, copy.width, copy.height);
  const hues = new Map();
  for (let i = 0; i < data.length; i += 4) {
    const [r, g, b] = data.subarray(i, i + 3);
    if (data[i + 3] < 255 || Math.max(r, g, b) - Math.min(r, g, b) < 60) continue;
    const key = `${r},${g},${b}`;
    hues.set(key, (hues.get(key) ?? 0) + 1);
  }
  return [...hues.values()].filter((pixels) => pixels >= 9).length;
}"""


class BlocksTest(PageTest):
    simulate = 10

    def canvas(self):
        return self.page.locator("section[aria-labelledby=blocks] canvas")

    def summary(self):
        return self.page.locator("section[aria-labelledby=blocks] p.muted")

    def folds(self):
        return self.page.locator("section[aria-labelledby=blocks] .legend li", has_text="many in a row")

    def await_requests(self, count):
        wait_until(lambda: self.canvas().evaluate(HUES) >= count, f"{count} requests are drawn")


class SmallLoad(BlocksTest):
    flags = ("--block-size", 1)

    def names_a_request(self):
        for place in (5, 6):  # to another place, for the pointer to move
            self.canvas().hover(position={"x": place, "y": place})
        return re.match(r"blocks? .*: .*cmpl-", self.page.locator(".tip").inner_text())

    def test_a_small_load_on_a_large_cache_is_drawn(self):
        self.open("engine")
        with Load(self.server, 5, prompt="hello"):
            self.server.await_running(5)
            self.await_requests(5)
            expect(self.summary()).to_contain_text(re.compile(r"^[\d,]+ blocks: \d"))
            expect(self.folds()).to_be_visible()
            # The first cells are the requests' own: pointing at one names it.
            wait_until(self.names_a_request, "pointing at a cell names its request")


class SmallCache(BlocksTest):
    simulate = 100  # so that a request holds its blocks for long
    flags = ("--max-model-len", 512, "--kv-cache-memory-bytes", "32M")

    def test_a_small_cache_is_drawn_block_by_block(self):
        self.open("engine")
        with Load(self.server, 3, max_tokens=500, prompt="hello"):
            self.server.await_running(3)
            self.await_requests(3)
            expect(self.folds()).to_be_hidden()


if __name__ == "__main__":
    main()
