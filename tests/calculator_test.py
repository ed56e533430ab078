"""The calculator of docs/, as scripts/make_calculator.py makes it: one file, opened without a server.

    calculator_test.py PROGRAM SOURCE_DIR
"""

import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

from cli_support import PROGRAM, SOURCE, run
from page_support import NARROW, WIDE, BrowserTest, expect

sys.path.insert(0, str(SOURCE / "scripts"))
import make_calculator  # noqa: E402

PLAN = """async ([source, wanted]) =>
  (await import('data:text/javascript,' + encodeURIComponent(source))).plan(wanted)"""
KV_BYTES = {"bf16": 2, "fp8": 1, "fp32": 4}
# Model, type, device, tp, pp, type of keys and values, longest sequence, prompt, output, sequences, tokens of a step.
CASES = [
    ("llama-3.1-8b", "bf16", "h100", 1, 1, "bf16", 8192, 1024, 256, 256, 2048),
    ("llama-3.1-8b", "fp32", "b200", 2, 1, "fp32", 4096, 100, 7, 33, 512),
    ("llama-3.1-8b", "bf16", "xeon-8480", 1, 4, "bf16", 4096, 512, 128, 64, 2048),  # over a network
    ("llama-3.1-70b", "fp8", "h100", 4, 1, "fp8", 8000, 2000, 300, 256, 2048),
    ("llama-3.1-70b", "fp8", "h100", 2, 4, "fp8", 8000, 2000, 300, 256, 2048),
    ("llama-3.1-70b", "bf16", "h100", 1, 1, "bf16", 8000, 2000, 300, 256, 2048),  # does not fit
    ("llama-3.1-405b", "fp4", "b200", 8, 1, "bf16", 131072, 30000, 1000, 64, 8192),
    ("llama-3.1-405b", "bf16", "h100", 8, 2, "bf16", 16384, 4000, 500, 64, 8192),
    ("deepseek-v3", "fp8", "h200", 8, 2, "bf16", 16384, 4000, 500, 128, 4096),
    ("falcon-7b", "int8", "a100", 1, 1, "bf16", 2048, 512, 128, 256, 2048),
    ("llama-2-13b", "int4", "rtx4090", 1, 1, "bf16", 4096, 512, 128, 16, 2048),
    ("mistral-7b-v0.3", "bf16", "xeon-8480", 1, 1, "bf16", 4096, 512, 128, 16, 2048),
    ("llama-2-70b", "bf16", "a100-pcie", 8, 1, "fp8", 4096, 1000, 100, 100, 2048),
    ("llama-2-70b", "int4", "rtx4090", 1, 8, "bf16", 4096, 1000, 100, 5, 2048),
]


class Calculator(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.file = pathlib.Path(folder.name, "calculator.html")
        make_calculator.make(PROGRAM, cls.file)

    def open(self, **fields):
        self.page.goto("about:blank")
        self.page.goto(f"file://{self.file}#" + "&".join(f"{name}={value}" for name, value in fields.items()))
        expect(self.page.get_by_role("heading", level=2).first).to_be_visible()

    def field(self, label):
        return self.page.get_by_label(label)

    def assert_close(self, got, wanted, what):
        self.assertAlmostEqual(got / wanted if wanted else 1 + got, 1, places=9, msg=what)

    def test_its_arithmetic_is_the_programs(self):
        source = (make_calculator.PAGE / "plan.js").read_text()
        self.page.goto("about:blank")
        for model, dtype, device, tp, pp, kv, max_len, prompt, output, seqs, tokens in CASES:
            with self.subTest(model=model, dtype=dtype, device=device, pp=pp):
                said = make_calculator.call(
                    PROGRAM, SOURCE / f"examples/configs/{model}.json", "--dtype", dtype, "--device", device, "--tp", tp,
                    "--pp", pp, "--kv-cache-dtype", kv, "--max-model-len", max_len, "--input-len", prompt, "--output-len", output,
                    "--max-num-seqs", seqs, "--max-num-batched-tokens", tokens)
                (wanted,) = said["plans"]
                wide = make_calculator.call(PROGRAM, SOURCE / f"examples/configs/{model}.json", "--dtype", dtype, "--device",
                                            "b200", "--tp", tp, "--pp", pp, "--kv-cache-dtype", "bf16")
                got = self.page.evaluate(PLAN, [source, {
                    "stages": wide["plans"][0]["stages"], "networkGbs": 50, "multipliedIn": wide["multiplied_in"],
                    "device": wanted["device"], "tp": tp, "kvBytes": KV_BYTES[kv], "maxLen": max_len, "inputLen": prompt,
                    "outputLen": output, "maxNumSeqs": seqs, "maxBatchedTokens": tokens, "blockSize": 16,
                    "utilization": 0.9, "usdPerHour": wanted["device"].get("usd_per_hour")}])
                memory = wanted["memory"]
                for key, name in (("budget", "budget"), ("weights", "weights"), ("activations", "activations"),
                                  ("kvCache", "kv_cache"), ("kvPerSequence", "kv_bytes_per_sequence")):
                    self.assert_close(got["memory"][key], memory[name], name)
                self.assertEqual(got["sequences"], memory["sequences"])
                self.assertEqual(got["computedIn"], wanted["computed_in"])
                self.assertEqual([each["batch"] for each in got["decode"]], [each["batch"] for each in wanted["decode"]])
                for one, other in zip([got["prefill"], *got["decode"]], [wanted["prefill"], *wanted["decode"]]):
                    self.assertEqual(one["bound"], other["bound"])
                    for key, name, unit in (("ideal", "ideal_ms", 1e3), ("expected", "expected_ms", 1e3),
                                            ("flops", "flops", 1), ("bytes", "bytes", 1)):
                        self.assert_close(one[key] * unit, other[name], name)
                for one, other in zip(got["decode"], wanted["decode"]):
                    self.assert_close(one["tokensPerSecond"], other["tokens_per_s"], "tokens_per_s")
                    if other["usd_per_million_output_tokens"] is not None:
                        self.assert_close(one["usdPerMillion"], other["usd_per_million_output_tokens"], "USD")

    def test_what_it_shows_is_what_its_command_says(self):
        self.open(model="llama-3.1-70b", dtype="fp8", tp=2, pp=2, price=2)
        text = self.page.locator("pre").inner_text()
        said = json.loads(run(*shlex.split(text.replace("examples/", f"{SOURCE}/examples/"))[1:], "--json").stdout)
        (planned,) = said["plans"]
        expect(self.page.locator(".verdict")).to_contain_text(f"{planned['memory']['sequences']} sequences of 8,192 tokens")
        rows = self.page.locator("tbody tr")
        expect(rows).to_have_count(len(planned["decode"]))
        self.assertEqual(planned["usd_per_hour"], 8)
        cost = float(rows.last.locator("td").nth(4).inner_text())
        self.assertAlmostEqual(cost, planned["decode"][-1]["usd_per_million_output_tokens"], delta=0.006)
        # A link shows the same, and what is chosen is in it.
        self.field("Prompt, tokens").fill("3000")
        expect(rows.last).not_to_contain_text(f"{cost:.2f}")
        self.assertIn("input=3000", self.page.url)
        self.page.reload()
        expect(self.field("Prompt, tokens")).to_have_value("3000")
        expect(self.field("Devices for each layer")).to_have_value("2")
        expect(self.field("Stages of layers")).to_have_value("2")

    def test_its_command_quotes_what_a_shell_would_read(self):
        folder = pathlib.Path(self.file.parent, "it's 5 $HOME; & `here`")
        folder.mkdir()
        config = shutil.copy(SOURCE / "examples/configs/llama-3.1-8b.json", folder / "a config.json")
        page = self.file.with_name("quoted.html")
        text, place = self.file.read_text(), '"command":"examples/configs/llama-3.1-8b.json"'
        self.assertEqual(text.count(place), 1)
        page.write_text(text.replace(place, f'"command":{json.dumps(str(config))}'))
        self.page.goto(f"file://{page}#model=llama-3.1-8b")
        command = self.page.locator("pre").inner_text()
        self.assertEqual(shlex.split(command)[2], str(config))
        ran = subprocess.run(["sh", "-c", command.replace("quire", shlex.quote(str(PROGRAM)), 1) + " --json"],
                             capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(len(json.loads(ran.stdout)["plans"]), 1)

    def test_what_does_not_go_is_said(self):
        self.open(model="llama-3.1-70b")
        expect(self.page.locator(".verdict.wrong")).to_contain_text("The weights do not fit")
        self.assertEqual(self.page.locator("table").count(), 0)
        for label, value, said in (("Longest sequence, tokens", "500000", "at most 131,072 tokens"),
                                   ("Prompt, tokens", "1e99", "a whole number"), ("Output, tokens", "", "a whole number"),
                                   ("Share of memory to use, %", "101", "at most 100%"),
                                   ("USD an hour for a device", "-1", "not below 0"),
                                   ("Prompt, tokens", "8000", "longer than the longest sequence")):
            self.open(model="llama-3.1-8b")
            self.field(label).fill(value)
            expect(self.page.get_by_role("alert")).to_contain_text(said)
        # Seven query heads' worth of devices divide no model here; a device without links takes none.
        self.open(model="llama-3.1-8b", device="rtx4090")
        self.assertEqual(self.field("Devices for each layer").locator("option:disabled").count(),
                         4 - [1, 2, 4, 8].index(self.max_tp("rtx4090")) - 1)
        # What an address says and nobody offers is left out.
        self.open(model="<b>x</b>", input="abc", colour="red")
        expect(self.field("Model")).to_have_value("llama-3.1-8b")
        expect(self.page.locator(".verdict")).to_be_visible()

    @staticmethod
    def max_tp(name):
        devices = make_calculator.call(PROGRAM, "--list-devices")["devices"]
        return next(each["max_tp"] for each in devices if each["name"] == name)

    def test_it_fits_every_screen_in_both_schemes(self):
        papers = set()
        for viewport in (NARROW, WIDE):
            for scheme in ("light", "dark"):
                self.page.set_viewport_size(viewport)
                self.page.emulate_media(color_scheme=scheme)
                self.open()
                self.assert_fits()
                papers.add(self.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(papers), 2)

    def test_it_asks_nobody(self):
        asked = []
        self.page.on("request", lambda request: asked.append(request.url))
        self.open()
        self.assertEqual([each for each in asked if not re.match(r"file:|data:|about:", each)], [])
        self.assertNotRegex(self.file.read_text(), r'(?:src|href)="(?:https?:)?//')


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
