#!/usr/bin/env python3
"""JSON Schemas of MaskBench through Quire's grammars, XGrammar, llguidance and outlines-core, in one run.

  bench/peers/structured_output.py DATA_GZ --follow-schemas PROGRAM --vocabulary FILE [--every N] [--engines NAME...]
  bench/peers/structured_output.py --suite FOLDER --follow-schemas PROGRAM --vocabulary FILE [--engines NAME...]

PROGRAM: tests/follow_schemas of a release build; FILE as it reads one (scripts/write_vocabulary.py). Needs the Python of
`scripts/install_peers.sh structured-output` (.venvs/peers-structured-output). Each schema goes through all engines, one
after the other, before the next: what else the machine does, it does to all of them. Times are the processor's, of
compiling a schema and of filling each mask of its instances, which are split into the longest tokens. An engine that
takes more than --limit seconds of the processor for a schema with its instances has refused it, and starts anew. Prints
a table in Markdown.

With --suite, a draft's folder of the JSON Schema test suite, the table has a row for each of its files, which are one for a
keyword: of how many schemas each engine judges every instance right, which it refuses, and which it takes without keeping to
them (an invalid instance is accepted) or too narrowly (a valid one is rejected, of those that accept no invalid one).
"""

import argparse
import collections
import gzip
import json
import os
import pathlib
import select
import subprocess
import sys
import time


# tokenizers.py beside this file is not the package that XGrammar's needs import.
sys.path = [folder for folder in sys.path if pathlib.Path(folder).resolve() != pathlib.Path(__file__).parent.resolve()]


def read_vocabulary(path):
    """The tokens' bytes, and the one that ends a sequence."""
    lines = pathlib.Path(path).read_text().split()
    tokens = [b"" if line in ("end", "-") else bytes.fromhex(line) for line in lines]
    return tokens, lines.index("end")


class Splitter:
    def __init__(self, tokens):
        self.ids = {}
        for i, token in enumerate(tokens):
            if token:
                self.ids.setdefault(token, i)
        self.longest = max(map(len, self.ids))

    def split(self, text):
        at = 0
        while at < len(text):
            for size in range(min(self.longest, len(text) - at), 0, -1):
                token = self.ids.get(text[at:at + size])
                if token is not None:
                    yield token
                    at += size
                    break


class XGrammar:
    def __init__(self, tokens, end):
        import xgrammar
        self.lib = xgrammar
        info = xgrammar.TokenizerInfo(tokens, vocab_type=xgrammar.VocabType.RAW, vocab_size=len(tokens),
                                      stop_token_ids=[end])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.mask = xgrammar.allocate_token_bitmask(1, len(tokens))
        self.words = self.mask.numpy()[0]

    def compile(self, schema):
        return self.compiler.compile_json_schema(schema, any_whitespace=True, strict_mode=False)

    def start(self, grammar):
        self.matcher = self.lib.GrammarMatcher(grammar)

    def fill(self):
        self.matcher.fill_next_token_bitmask(self.mask)

    def allows(self, token):
        return bool(int(self.words[token // 32]) >> (token % 32) & 1)

    def accept(self, token):
        return self.matcher.accept_token(token)


class LLGuidance:
    def __init__(self, tokens, end):
        import llguidance
        import llguidance.numpy
        self.lib = llguidance
        splitter = Splitter(tokens)

        class Tokenizer:
            eos_token_id = end
            bos_token_id = None
            special_token_ids = [end]

            def __init__(self):
                self.tokens = [b"<end>" if i == end else token for i, token in enumerate(tokens)]

            def __call__(self, text):
                return list(splitter.split(text if isinstance(text, bytes) else text.encode()))

        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokenizer()))
        self.mask = llguidance.numpy.allocate_token_bitmask(1, len(tokens))

    def compile(self, schema):
        grammar = self.lib.LLMatcher.grammar_from_json_schema(schema)
        matcher = self.lib.LLMatcher(self.tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return grammar

    def start(self, grammar):
        self.matcher = self.lib.LLMatcher(self.tokenizer, grammar)

    def fill(self):
        self.lib.numpy.fill_next_token_bitmask(self.matcher, self.mask)

    def allows(self, token):
        return bool(int(self.mask[0][token // 32]) >> (token % 32) & 1)

    def accept(self, token):
        return self.matcher.consume_token(token)


class OutlinesCore:
    def __init__(self, tokens, end):
        import outlines_core
        from outlines_core.json_schema import build_regex_from_schema
        self.lib, self.to_regex = outlines_core, build_regex_from_schema
        ids = {}
        for i, token in enumerate(tokens):
            if token:
                ids.setdefault(token, []).append(i)
        self.vocabulary = outlines_core.Vocabulary(end, ids)

    def compile(self, schema):
        return self.lib.Index(self.to_regex(schema), self.vocabulary)

    def start(self, index):
        self.guide = self.lib.Guide(index)

    def fill(self):
        self.allowed = self.guide.get_tokens()

    def allows(self, token):
        return token in self.allowed

    def accept(self, token):
        self.guide.advance(token, return_tokens=False)
        return True


# An engine that waits is given up after so many times the limit.
WAIT = 60
WORKERS = {"xgrammar": XGrammar, "llguidance": LLGuidance, "outlines-core": OutlinesCore}


def work(name, vocabulary):
    """A line of follow_schemas.cpp's protocol in, one out."""
    tokens, end = read_vocabulary(vocabulary)
    splitter = Splitter(tokens)
    engine = WORKERS[name](tokens, end)
    print("ready", flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        out = {}
        begin = time.process_time()
        try:
            grammar = engine.compile(json.dumps(case["schema"]))
        except BaseException as error:  # panics of Rust are no Exception
            out["error"] = {"message": str(error)[:300]}
        out["compile_us"] = (time.process_time() - begin) * 1e6
        if "error" not in out:
            out["accepted"], out["mask_us"] = [], []
            for text in case["texts"]:
                out["accepted"].append(follow(engine, grammar, list(splitter.split(text.encode())) + [end],
                                              out["mask_us"]))
        print(json.dumps(out), flush=True)


def follow(engine, grammar, tokens, times):
    engine.start(grammar)
    for i, token in enumerate(tokens):
        begin = time.process_time_ns()
        engine.fill()
        times.append((time.process_time_ns() - begin) / 1e3)
        if not engine.allows(token):
            return False
        if i + 1 < len(tokens) and not engine.accept(token):
            return False
    return True


class Engine:
    def __init__(self, name, arguments):
        self.name, self.arguments, self.process = name, arguments, None
        self.compile_us, self.mask_us = [], []
        self.refused = self.accepted_wrongly = self.rejected_wrongly = self.too_slow = 0
        self.instances = 0

    def start(self):
        if self.name == "quire":
            command = [self.arguments.follow_schemas, "--vocabulary", self.arguments.vocabulary,
                       "--order", self.arguments.order]
        else:
            command = [sys.executable, __file__, "--worker", self.name, "--vocabulary", self.arguments.vocabulary]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        if self.name != "quire":
            assert self.process.stdout.readline() == "ready\n", f"{self.name} does not start"

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def processor_time(self):
        """Seconds that the engine's process has had so far (proc(5))."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def answer(self, line):
        if self.process is None:
            self.start()
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        began, until = self.processor_time(), time.monotonic() + WAIT * self.arguments.limit
        while not select.select([self.process.stdout], [], [], 0.1)[0]:
            if self.processor_time() - began < self.arguments.limit and time.monotonic() < until:
                continue
            self.stop()
            self.too_slow += 1
            return {"error": {"message": "too slow"}, "compile_us": self.arguments.limit * 1e6}
        text = self.process.stdout.readline()
        if not text:  # it has ended itself
            self.stop()
            return {"error": {"message": "ended"}, "compile_us": 0}
        return json.loads(text)

    def judge(self, line, valid):
        """What an engine makes of a schema, one of JUDGEMENTS."""
        answer = self.answer(line)
        if "error" in answer:
            never = not any(valid) and "no value is valid" in answer["error"]["message"]
            return "right" if never else "refused"
        pairs = list(zip(answer["accepted"], valid, strict=True))
        if any(accepted and not right for accepted, right in pairs):
            return "ignored"
        return "narrow" if any(right and not accepted for accepted, right in pairs) else "right"

    def take(self, line, valid):
        answer = self.answer(line)
        self.compile_us.append(answer["compile_us"])
        if "error" in answer:
            self.refused += "no value is valid" not in answer["error"]["message"]
            return
        self.mask_us += answer["mask_us"]
        for accepted, right in zip(answer["accepted"], valid, strict=True):
            self.instances += 1
            self.accepted_wrongly += accepted and not right
            self.rejected_wrongly += right and not accepted


JUDGEMENTS = ("right", "refused", "ignored", "narrow")
# Files whose tests contradict what is asserted here: `format` as a remark.
REMARKS = ("format", "optional/format-assertion")


def compare_keywords(folder, engines):
    counts = {}
    for path in sorted(folder.rglob("*.json")):
        keyword = str(path.relative_to(folder).with_suffix(""))
        if keyword in REMARKS:
            continue
        for group in json.loads(path.read_text()):
            texts = [json.dumps(test["data"], ensure_ascii=False) for test in group["tests"]]
            line = json.dumps({"schema": group["schema"], "texts": texts})
            for engine in engines:
                judgement = engine.judge(line, [test["valid"] for test in group["tests"]])
                row = counts.setdefault(keyword, {}).setdefault(engine.name, collections.Counter())
                row[judgement] += 1
    print("of each keyword's schemas: " + ", ".join(JUDGEMENTS) + "\n")
    print("| |" + "".join(f" {engine.name} |" for engine in engines) + "\n|---|" + "---|" * len(engines))
    total = {engine.name: sum((rows[engine.name] for rows in counts.values()), collections.Counter()) for engine in engines}
    for keyword, rows in [*counts.items(), ("all", total)]:
        cells = [" ".join(str(rows[engine.name][judgement]) for judgement in JUDGEMENTS) for engine in engines]
        print(f"| `{keyword}` | " + " | ".join(cells) + " |")


def at(values, part):
    return sorted(values)[int(part * (len(values) - 1))] if values else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", choices=WORKERS)
    parser.add_argument("--follow-schemas")
    parser.add_argument("--vocabulary", required=True)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--limit", type=float, default=20, help="seconds of the processor for a schema (default: 20)")
    parser.add_argument("--order", choices=("declared", "free"), default="declared",
                        help="that Quire has members in (default: declared, as its server)")
    parser.add_argument("--engines", nargs="+", default=["quire", *WORKERS])
    parser.add_argument("--suite", type=pathlib.Path)
    parser.add_argument("data", nargs="?")
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments.worker, arguments.vocabulary)
    engines = [Engine(name, arguments) for name in arguments.engines]
    if arguments.suite:
        compare_keywords(arguments.suite, engines)
        for engine in engines:
            engine.stop()
        return None
    with gzip.open(arguments.data, "rt") as lines:
        entries = [json.loads(line) for line in lines][::arguments.every]
    for entry in entries:
        texts = [json.dumps(test["data"], ensure_ascii=False) for test in entry["tests"]]
        line = json.dumps({"schema": entry["schema"], "texts": texts})
        for engine in engines:
            engine.take(line, [test["valid"] for test in entry["tests"]])
    print(f"{len(entries)} schemas\n\n| | compile p50 | p99 | mask p50 | p99 | most | refused | of these too slow | "
          "instances | wrongly accepted | wrongly rejected |\n|---|---|---|---|---|---|---|---|---|---|---|")
    for engine in engines:
        engine.stop()
        print(f"| {engine.name} | {at(engine.compile_us, .5) / 1e3:.1f} ms | {at(engine.compile_us, .99) / 1e3:.1f} ms | "
              f"{at(engine.mask_us, .5):.1f} us | {at(engine.mask_us, .99):.0f} us | {at(engine.mask_us, 1):.0f} us | "
              f"{engine.refused} | {engine.too_slow} | {engine.instances} | {engine.accepted_wrongly} | "
              f"{engine.rejected_wrongly} |")


if __name__ == "__main__":
    main()
