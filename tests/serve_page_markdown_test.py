"""How the page shows an answer's Markdown, in real Chromium: what it means, what it must not do, and that
it grows without jumping and at a cost that grows with its length.

    serve_page_markdown_test.py PROGRAM SOURCE_DIR [TEST...]
"""

import json
import re

from page_support import PageTest, expect
from serve_support import main

# Shows a text, whole or piece by piece, in an element of its own.
SHOW = """async ({text, step}) => {
  const {Markdown} = await import('./page/markdown.js');
  const {library} = await import('./page/libraries.js');
  await library('marked');
  await new Promise((resolve) => setTimeout(resolve, 0));
  const markdown = new Markdown();
  document.getElementById('shown')?.remove();
  const root = document.createElement('div');
  root.id = 'shown';
  root.append(markdown.element);
  document.getElementById('panels').append(root);
  for (let end = step; step > 0 && end < text.length; end += step) markdown.show(text.slice(0, end), false);
  markdown.show(text, true);
}"""

EVERYTHING = r"""# Title

A *soft* and **strong** paragraph with `code`, ~~gone~~ and [a link](https://example.org/x?a=1&b=2) &copy; &lt;3.
Its second line.

- one
- two
  1. inner
  2. second
- [x] done
- [ ] to do

> A quote
> of two lines

| Name | Size |
|:-----|-----:|
| a    | 1    |
| b    | 22   |

```python
def f(x):
    \"\"\"Doc
    string.\"\"\"
    return {"a": x < 1 and x > 0}
```

---

Inline \(a^2\) and $b_1$, but $5 and $6 are prices.

$$
\sqrt{\frac{a}{b}} = \left( \begin{matrix} 1 \\ 2 \\ 3 \\ 4 \\ 5 \\ 6 \end{matrix} \right)
$$

The [defined] link.

[defined]: https://example.org/defined
""".replace('\\"', '"')


class Markdown(PageTest):
    simulate = 1

    def show(self, text, step=0):
        self.page.evaluate(SHOW, {"text": text, "step": step})
        return self.page.locator("#shown > .rich")

    def test_every_construct_becomes_what_it_means(self):
        self.open()
        rich = self.show(EVERYTHING)
        expect(rich.locator("h3.level-1")).to_have_text("Title")
        for selector, text in (("em", "soft"), ("strong", "strong"), ("p > code", "code"), ("del", "gone"),
                               ("blockquote", "A quoteof two lines"), ("ol > li:nth-child(2)", "second")):
            expect(rich.locator(selector).first).to_have_text(text)
        self.assertIn("© <3.", rich.locator("p").first.text_content())
        expect(rich.locator("a").first).to_have_attribute("href", "https://example.org/x?a=1&b=2")
        expect(rich.locator("a").first).to_have_attribute("rel", re.compile("noopener.*"))
        self.assertEqual([box.is_checked() for box in rich.locator("input[type=checkbox]").all()], [True, False])
        expect(rich.locator("td.align-right").last).to_have_text("22")
        expect(rich.locator("hr")).to_have_count(1)
        expect(rich.get_by_role("link", name="defined")).to_have_attribute("href", "https://example.org/defined")

    def test_code_is_coloured_and_keeps_every_character(self):
        self.open()
        rich = self.show(EVERYTHING)
        code = rich.locator("figure.code")
        expect(code.locator("figcaption span")).to_have_text("python")
        expect(code.locator(".hljs-keyword").first).to_have_text("def")
        expected = EVERYTHING.split("```python\n")[1].split("\n```")[0]
        self.assertEqual(code.locator("code").text_content().rstrip("\n"), expected)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        button = code.get_by_role("button")
        await_text = self.note_texts(button)
        button.click()
        await_text("^Copied$")
        self.assertEqual(self.page.evaluate("navigator.clipboard.readText()").rstrip("\n"), expected)

    def test_formulas_are_drawn_without_breaking_the_policy(self):
        self.open()
        rich = self.show(EVERYTHING)
        expect(rich.locator(".math.drawn")).to_have_count(3)
        expect(rich.locator(".math.display .katex-display svg").first).to_be_visible()
        self.assertIn("$5 and $6 are prices", rich.text_content())
        self.page.wait_for_function("() => document.fonts.check('16px KaTeX_Main')")
        broken = self.show("No TeX: $$\\frac{1$$ and $x$")
        expect(broken.locator(".math.drawn")).to_have_count(1)
        self.assertIn("\\frac{1", broken.text_content())

    def test_libraries_load_on_first_use(self):
        files = []
        self.page.on("request", lambda request: files.append(request.url.rsplit("/", 1)[1]))
        self.open()
        self.show("Only *words*.")
        self.assertFalse({"highlight.js", "katex.js", "katex.css"} & set(files), files)
        self.show("```python\nx = 1\n```\n\n$x$")
        expect(self.page.locator("#shown .math.drawn")).to_have_count(1)
        expect(self.page.locator("#shown .hljs-number")).to_have_count(1)
        self.assertTrue({"highlight.js", "katex.js", "katex.css"} <= set(files), files)

    def test_growing_ends_as_the_whole_does(self):
        self.open()
        markup = "() => document.querySelector('#shown > .rich').innerHTML"
        texts = [EVERYTHING, "\tindented\n\n* a\n\n  b\n* c\n\nText\n====\n", "a\r\nb\r\n\r\n1. x\r\n2. y", "```\nopen to the end"]
        self.show(EVERYTHING)  # loads what is loaded on first use
        expect(self.page.locator("#shown .math.drawn")).to_have_count(3)
        expect(self.page.locator("#shown .hljs-keyword").first).to_be_visible()
        for text in texts:
            self.show(text)
            whole = self.page.evaluate(markup)
            for step in (1, 7, 50):
                self.show(text, step)
                self.assertEqual(self.page.evaluate(markup), whole, (step, text))

    def test_what_is_complete_stays_the_same_element(self):
        self.open()
        self.show("x")
        kept = self.page.evaluate("""async () => {
          const {Markdown} = await import('./page/markdown.js');
          const markdown = new Markdown();
          markdown.show('First.\\n\\n- a\\n- b\\n\\n```python\\nx = 1\\n', false);
          markdown.show('First.\\n\\n- a\\n- b\\n\\n```python\\nx = 1\\ny', false);
          const before = [markdown.element.querySelector('p'), markdown.element.querySelector('li'), markdown.element.querySelector('figure')];
          markdown.show('First.\\n\\n- a\\n- b\\n\\n```python\\nx = 1\\ny = 2\\n```\\nMore', false);
          const after = [markdown.element.querySelector('p'), markdown.element.querySelector('li'), markdown.element.querySelector('figure')];
          return before.map((each, i) => each === after[i]);
        }""")
        self.assertEqual(kept, [True, True, True])

    def test_marks_that_are_open_are_not_seen(self):
        self.open()
        self.show("x")
        seen = self.page.evaluate("""async () => {
          const {Markdown} = await import('./page/markdown.js');
          return ['so **bol', 'so **', 'a `cod', '| a | b', '| a | b |\\n|--'].map((text) => {
            const markdown = new Markdown();
            markdown.show(text, false);
            return markdown.element.textContent;
          });
        }""")
        self.assertEqual(seen, ["so bol", "so ", "a cod", "", ""])

    def test_a_long_answer_costs_what_its_length_does(self):
        """Characters that are read again with each piece: those of the last block only."""
        self.open()
        self.show("x")
        read = self.page.evaluate("""async () => {
          const {Markdown} = await import('./page/markdown.js');
          let read = 0;
          const lexer = window.marked.Lexer.prototype.lex;
          window.marked.Lexer.prototype.lex = function count(text) {
            read += text.length;
            return lexer.call(this, text);
          };
          const paragraph = 'Words that fill a line of text, more or less, with *marks*.\\n\\n';
          const cost = (count) => {
            const text = paragraph.repeat(count);
            const markdown = new Markdown();
            read = 0;
            for (let end = 10; end < text.length; end += 10) markdown.show(text.slice(0, end), false);
            markdown.show(text, true);
            return read / text.length;
          };
          return [cost(20), cost(200)];
        }""")
        self.assertLess(read[1], 1.2 * read[0])

    def test_an_answer_cannot_do_anything(self):
        requests = []
        self.open()
        self.show("x")
        self.page.on("request", lambda request: requests.append(request.url))
        rich = self.show("\n\n".join((
            "<img src=x onerror=alert(1)> and <b>bold</b>", "<script>alert(1)</script>", "[a](javascript:alert(1))",
            "[b](JaVaScRiPt&#58;alert(1))", "[c](data:text/html,x)", "[d](/v1/models)", "![i](https://example.org/i.png)",
            "<https://example.org>", "&lt;img src=x&gt; &#60;svg onload=alert(1)&#62;", "$\\href{javascript:alert(1)}{x}$")))
        self.assertEqual(rich.locator("img, script, b, svg, iframe").count(), 0)
        addresses = rich.locator("a").evaluate_all("(links) => links.map((each) => each.getAttribute('href'))")
        self.assertEqual(addresses, ["https://example.org/i.png", "https://example.org/"])
        self.assertIn("<img src=x onerror=alert(1)>", rich.text_content())
        self.assertIn("<svg onload=alert(1)>", rich.text_content())
        self.assertEqual([url for url in requests if not re.search("katex|KaTeX|markdown|libraries", url)], [])

    def test_an_answer_of_the_server_is_shown_so(self):
        text = "Here:\n\n```js\nlet a = 1;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
        pieces = [text[i:i + 3] for i in range(0, len(text), 3)]
        events = [{"id": "chatcmpl-x", "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
                  for piece in pieces]
        events.append({"id": "chatcmpl-x", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 9}})
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        self.page.route("**/v1/chat/completions", lambda route: route.fulfill(
            status=200, content_type="text/event-stream", body=body))
        self.open()
        self.page.get_by_label("Message").fill("Show me")
        self.page.get_by_label("Message").press("Enter")
        answer = self.page.locator("article.answer")
        expect(answer.locator("figure.code .hljs-keyword")).to_have_text("let")
        expect(answer.locator("tbody td").last).to_have_text("2")
        self.page.reload()
        self.await_playground()
        expect(answer.locator("figure.code .hljs-keyword")).to_have_text("let")


if __name__ == "__main__":
    main()
