"""tests/data/chat_template: what jinja2 renders, set up as transformers sets it up.

conversations.json: inputs. <template>.json: the output for each of them, or "error", coded against
the output before it (bytes of common prefix and suffix, and what lies between). language.json: small
templates, each for one corner of the language, with their outputs.

Templates: *.jinja beside the outputs, and those of ../shared/data/chat_templates where that folder
is there (their text is not copied; a hash tells whether it is still the same).
"""

import datetime
import hashlib
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

from chat_template_cases import CONVERSATIONS, LANGUAGE, VARIABLES

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests" / "data" / "chat_template"
SHARED = ROOT.parent / "shared" / "data" / "chat_templates"
CLOCK = datetime.datetime(2026, 7, 26, 14, 5, 9)
TOKENS = {"bos_token": "<|bos|>", "eos_token": "<|eos|>"}


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks the assistant's text; it renders as its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("render"), [], [], body).set_lineno(line)

    def render(self, caller):
        return caller()


def make_environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = CLOCK.strftime
    return environment


ENVIRONMENT = make_environment()


def render(source, conversation):
    variables = {**TOKENS, **conversation.get("kwargs", {}),
                 "messages": conversation["messages"], "tools": conversation.get("tools"),
                 "documents": conversation.get("documents"),
                 "add_generation_prompt": conversation.get("add_generation_prompt", False)}
    try:
        return ENVIRONMENT.from_string(source).render(**variables)
    except Exception:  # any failure of the template: TemplateError, TypeError, KeyError, ...
        return None


def common_prefix(a, b):
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


def encode(outputs):
    """Each output as "error" or [prefix bytes, suffix bytes, text] relative to the one before."""
    coded, last = [], ""
    for output in outputs:
        if output is None:
            coded.append("error")
            continue
        prefix = common_prefix(last, output)
        suffix = common_prefix(last[prefix:][::-1], output[prefix:][::-1])
        end = len(output) - suffix
        coded.append([len(output[:prefix].encode()), len(output[end:].encode()),
                      output[prefix:end]])
        last = output
    return coded


def write(name, fields):
    lines = []
    for key, value in fields.items():
        dump = lambda item: json.dumps(item, ensure_ascii=False, separators=(",", ":"))  # noqa: E731
        body = "[\n" + ",\n".join(map(dump, value)) + "\n]" if isinstance(value, list) else dump(value)
        lines.append(f"{dump(key)}:{body}")
    path = DATA / name
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return path.stat().st_size


def main():
    total = write("conversations.json", {"special_tokens": TOKENS, "clock": CLOCK.isoformat(),
                                         "conversations": CONVERSATIONS})
    templates = sorted(DATA.glob("*.jinja")) + sorted(SHARED.glob("*.jinja"))
    for path in templates:
        # As readers of a file in text mode do not, keep line ends as they are.
        source = path.read_bytes().decode()
        outputs = [render(source, conversation) for conversation in CONVERSATIONS]
        total += write(f"{path.stem}.json", {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                                             "outputs": encode(outputs)})
        errors = sum(output is None for output in outputs)
        print(f"{path.stem}: {len(outputs)} conversations, {errors} of them errors")
    total += write("language.json", {"variables": VARIABLES, "cases": [
        [source, render(source, {"messages": [], "kwargs": VARIABLES})] for source in LANGUAGE]})
    print(f"{len(templates)} templates, {len(LANGUAGE)} cases of the language, {total} bytes")


if __name__ == "__main__":
    main()
