"""What the program says of its command line: --help, --help-vllm, completions in shells, refusals.

    cli_help_test.py PROGRAM SOURCE_DIR

All of it is compared with `quire completion json`, which reads the parser's own tables.
"""

import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from cli_support import PROGRAM, facts, run

MISSING = "/no/such/model.gguf"
# What a command needs besides, so that nothing but the flag under test is wrong.
NEEDED = {"quire generate": ["--prompt", "x"], "quire tokenize": ["--text", "x"], "quire detokenize": ["--ids", "1"],
          "quire explain": ["1", "--event-log", MISSING], "quire replay": [MISSING],
          "quire bench make-model": ["--output", "/no/such/folder/model"], "quire completion": ["bash"],
          "quire serve": ["--port", "0"]}
STATE = tempfile.TemporaryDirectory()
os.environ["XDG_STATE_HOME"] = STATE.name  # nothing is kept in the user's own folder


def all_commands(command=None):
    command = command or facts()
    yield command
    for each in command["commands"]:
        yield from all_commands(each)


def words_of(command):
    return command["name"].split()[1:]


def names_of(command):
    return [name for flag in command["flags"] for name in flag["names"] + flag["negated"]]


def in_terminal(columns, *args):
    """What a command prints into a terminal of so many columns."""
    pid, descriptor = pty.fork()
    if pid == 0:
        size = struct.pack("HHHH", 50, columns, 0, 0)
        fcntl.ioctl(1, termios.TIOCSWINSZ, size)
        os.execv(PROGRAM, ["quire", *args])
    text = b""
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:
            break
        if not piece:
            break
        text += piece
    os.waitpid(pid, 0)
    os.close(descriptor)
    return text.decode().replace("\r\n", "\n")


class Help(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = list(all_commands())

    def test_begins_with_two_examples_that_the_program_takes(self):
        names = {command["name"]: command for command in self.commands}
        for command in self.commands:
            with self.subTest(command["name"]):
                text = run(*words_of(command), "--help").stdout
                self.assertTrue(text.startswith("Examples:\n"), text[:80])
                examples = re.findall(r"^  (\S.*?)(?:  |$)", text.partition("\n\n")[0], re.M)
                self.assertEqual(len(examples), 2, text)
                for example in examples:
                    words = example[example.index("quire"):].split()
                    shown = " ".join(words[:3]) if words[1] == "bench" else " ".join(words[:2])
                    shown = shown.rstrip(")")
                    self.assertIn(shown, names)
                    for flag in re.findall(r"(?<!\S)--[a-z-]+", example):
                        self.assertIn(flag, names_of(names[shown]), example)

    def test_wraps_at_the_terminals_width(self):
        for columns in (40, 72, 120):
            for command in (["serve"], ["bench", "serve"], ["tokenize"], []):
                text = in_terminal(columns, *command, "--help")
                lines = text.splitlines()
                self.assertGreater(len(lines), 8)
                for line in lines:
                    # A name that is longer than the line stays whole.
                    if len(line.split()) > 1 and not line.lstrip().startswith(("-", "quire ")):
                        self.assertLessEqual(len(line), columns, f"{command} at {columns}: {line!r}")
                self.assertGreater(max(map(len, lines)), columns * 2 // 3)

    def test_shows_no_syntax_of_the_parser(self):
        for command in self.commands:
            text = run(*words_of(command), "--help").stdout
            for raw in (r"\bINT\b", r"\bUINT\b", r"\bFLOAT\b", r" in \[", r"\{[a-z]", r"->", r"922337203", r"2147483647",
                        r"\[\d", r"TEXT:", r"REQUIRED", r"Env:"):
                self.assertNotRegex(text, raw, command["name"])

    def test_names_every_flag_with_what_it_takes(self):
        for command in self.commands:
            text = " ".join(run(*words_of(command), "--help").stdout.split())
            for flag in command["flags"] + command["arguments"]:
                self.assertTrue(flag["description"], flag)
                for name in flag["names"] + flag["negated"]:
                    self.assertRegex(text, rf"(?<!\S){re.escape(name)}(?![a-z-])")
                shown = "|".join(flag["choices"]) or flag["value"]
                if shown not in flag["names"]:  # of an argument it is the name
                    self.assertIn(f"{(flag['names'] + flag['negated'])[-1]} {shown}".strip(), text)
                if flag["range"]:
                    self.assertIn(flag["range"], text)

    def test_flags_that_few_need_come_last(self):
        for command in self.commands:
            groups = [flag["group"].startswith("Rarely needed") for flag in command["flags"]]
            self.assertEqual(groups, sorted(groups), command["name"])
        groups = {flag["names"][0]: flag["group"] for flag in facts("serve")["flags"]}
        self.assertEqual(groups["--block-size"], "Rarely needed: engine")
        self.assertEqual(groups["--port"], "Address and access")

    def test_a_model_is_an_argument_wherever_one_is_taken(self):
        for command in self.commands:
            flags = [flag for flag in command["flags"] if "--model" in flag["names"]]
            arguments = [each["names"] for each in command["arguments"]]
            if flags and flags[0]["value"] == "MODEL":
                self.assertIn(["MODEL"], arguments, command["name"])
            else:
                self.assertNotIn(["MODEL"], arguments, command["name"])

    def test_the_argument_names_the_model(self):
        for command in self.commands:
            if ["MODEL"] not in [each["names"] for each in command["arguments"]]:
                continue
            needed = NEEDED.get(command["name"], [])
            if command["name"] == "quire template":
                needed = ["--input", "-"]
            for given in ([MISSING], ["--model", MISSING], [MISSING, "--model", MISSING]):
                result = run(*words_of(command), *given, *needed, text_input='[{"role": "user", "content": "x"}]')
                self.assertEqual(result.returncode, 66, f"{command['name']}: {result.stderr}")
                self.assertIn(MISSING, result.stderr)
            result = run(*words_of(command), MISSING, "--model", "other", *needed, text_input="")
            self.assertEqual(result.returncode, 64)
            self.assertIn(f"two models are named, {MISSING} and other", result.stderr)


class WrongValues(unittest.TestCase):
    def test_are_refused_before_a_model_is_opened(self):
        tried = 0
        for command in all_commands():
            for flag in command["flags"]:
                wrong = self.wrong_value(flag)
                if wrong is None:
                    continue
                needed = NEEDED.get(command["name"], [])
                if command["name"] == "quire template":
                    needed = ["--input", "-"]
                model = ["--model", MISSING] if "--model" in names_of(command) else []
                name = flag["names"][-1]
                if name in needed:
                    needed = []
                with self.subTest(f"{command['name']} {name}={wrong}"):
                    result = run(*words_of(command), *model, *needed, f"{name}={wrong}", text_input="[]")
                    self.assertEqual(result.returncode, 64, result.stderr)
                    self.assertIn(name.removeprefix("--").replace("-", "_"), result.stderr.replace("-", "_"))
                tried += 1
        self.assertGreater(tried, 200)

    @staticmethod
    def wrong_value(flag):
        if flag["choices"]:
            return "no-such-name"
        if flag["range"]:
            return "-5"  # no range of the program's holds it
        return "x" if flag["value"] in ("N", "NUMBER", "MS", "US", "SECONDS", "SHARE", "PORT", "ID,ID,...", "JSON") else None

    def test_those_that_no_range_says(self):
        for args, said in ((["generate", "--prompt", "x", "--logprobs", 21], "logprobs: 21"),
                           (["generate", "--prompt", "x", "--max-logprobs", 3, "--prompt-logprobs", 4], "prompt_logprobs: 4"),
                           (["generate", "--prompt", "x", "--dtype", "float16"], "--dtype float16"),
                           (["chat", "--top-p", 0], "top_p"),
                           (["serve", "--port", 65536], "--port"),
                           (["serve", "--port", 0, "--batch-database", "/proc/no/such/folder/db"], "/proc/no/such/folder"),
                           (["bench", "throughput", "--timeline", "/no/such/folder/page.html"], "/no/such/folder"),
                           (["bench", "step", "--trace", "/no/such/folder/trace.json"], "/no/such/folder")):
            with self.subTest(args):
                result = run(*args, "--model", MISSING)
                self.assertNotIn(result.returncode, (0, 66), result.stderr)
                self.assertIn(said, result.stderr)
                self.assertNotIn(MISSING, result.stderr)


class Vllm(unittest.TestCase):
    def test_what_is_listed_is_what_each_flag_does(self):
        text = run("serve", "--help-vllm").stdout
        accepted, refused, taken = re.split(r"\n(?:Refused|Taken).*:\n", text.partition("without effect:\n")[2])
        self.assertEqual(re.findall(r"  (\S+) +(\S+)", taken), [("--swap-space", "--kv-offloading-size")])
        result = run("serve", MISSING, "--swap-space", 16)
        self.assertIn("--kv-offloading-size", result.stderr)
        own = set(names_of(facts("serve")))
        rows = [(row, True) for row in accepted.strip("\n").split("\n")]
        rows += [(row, False) for row in refused.strip("\n").split("\n")]
        self.assertGreater(len(rows), 150)
        for row, is_accepted in rows:
            names, reason = re.fullmatch(r"  ([^ ,]+(?:, -\S+)?) {2,}(.*)", row).groups()
            for name in names.split(", "):
                self.assertNotIn(name, own)
                with self.subTest(name):
                    said = f"has no effect: {reason}" if is_accepted else f"Quire does not have {reason}"
                    for given in ([name, "some-value"], [name], [f"--no-{name[2:]}"]):
                        result = run("serve", MISSING, "--port", 0, *given)
                        if said in result.stderr:
                            break
                    self.assertIn(said, result.stderr)
                    self.assertEqual(result.returncode, 66 if is_accepted else 64)

    def test_flags_that_the_program_has_are_not_listed(self):
        text = run("serve", "--help-vllm").stdout
        for name in ("--chat-template", "--quantization", "--model", "--port", "--max-model-len"):
            self.assertNotRegex(text, rf"^  {name}[ ,]")
        result = run("serve", MISSING, "--port", 0, "-q", "awq")
        self.assertEqual(result.returncode, 64)
        self.assertIn("--quantization awq", result.stderr)


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scripts = {shell: run("completion", shell).stdout for shell in ("bash", "zsh", "fish")}
        cls.root = facts()

    def complete(self, line):
        """What bash offers at the end of a line."""
        words = re.findall(r"=|[^ =]+", line) + ([""] if line.endswith(" ") else [])
        script = (f"{self.scripts['bash']}\nCOMP_WORDS=({' '.join(map(repr, words))})\n"
                  f"COMP_CWORD={len(words) - 1}\n_quire\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"")
        done = subprocess.run(["bash", "--norc", "-u", "-c", script], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_offers_every_flag_and_no_other(self):
        for command in all_commands(self.root):
            line = " ".join(["quire", *words_of(command), "-"])
            self.assertEqual(sorted(self.complete(line)), sorted(names_of(command)), line)

    def test_offers_the_commands(self):
        self.assertEqual(self.complete("quire ser"), ["serve"])
        self.assertEqual(sorted(self.complete("quire ")), sorted(words_of(each)[0] for each in self.root["commands"]))
        self.assertEqual(self.complete("quire bench lat"), ["latency"])
        self.assertEqual(self.complete("quire completion z"), ["zsh"])

    def test_offers_values(self):
        for line in ("quire serve --log-format ", "quire serve MODEL --log-format=", "quire serve --log-format = "):
            self.assertEqual(self.complete(line.rstrip() if "= " in line else line), ["text", "json"], line)
        self.assertEqual(self.complete("quire generate --kv-cache-dtype f"), ["float32", "fp8"])
        self.assertEqual(self.complete("quire serve --port "), [])
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "model.gguf")
            file.touch()
            for start in ("quire chat", "quire serve --model", "quire generate --input"):
                self.assertEqual(self.complete(f"{start} {folder}/mo"), [str(file)], start)

    def test_bash_sources_it_and_completes_what_is_typed(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "quire").symlink_to(pathlib.Path(PROGRAM).resolve())
            pid, descriptor = pty.fork()
            if pid == 0:
                os.execvpe("bash", ["bash", "--norc", "-i"], {
                    "PATH": f"{folder}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "ready>", "INPUTRC": "/dev/null"})
            text = b""

            def expect(wanted):
                nonlocal text
                end = time.monotonic() + 60
                while wanted not in text:
                    self.assertTrue(select.select([descriptor], [], [], max(0, end - time.monotonic()))[0], text)
                    text += os.read(descriptor, 65536)
                text = text.partition(wanted)[2]

            try:
                expect(b"ready>")
                os.write(descriptor, b"source <(quire completion bash); echo sour''ced\n")
                expect(b"sourced\r\n")
                expect(b"ready>")
                os.write(descriptor, b"quire inspect --tens\t")
                expect(b"ors ")
                os.write(descriptor, b"\x15quire serve --log-format=j\t")
                expect(b"son ")
            finally:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
                os.close(descriptor)

    def test_zsh_and_fish_have_the_flags_of_each_command(self):
        functions = dict(re.findall(r"^_(quire\w*)\(\) \{\n(.*?)^\}", self.scripts["zsh"], re.M | re.S))
        fish = self.scripts["fish"].splitlines()
        for command in all_commands(self.root):
            words = words_of(command)
            body = functions[re.sub(r"[ -]", "_", command["name"])]
            found = re.findall(r"^    '\*?(-{1,2}[a-z][a-z-]*)=?\[", body, re.M)
            self.assertEqual(sorted(found), sorted(names_of(command)), command["name"])
            condition = f"'quire {' '.join(words)}' (" if words else "(count (commandline -opc)) -eq 1"
            lines = [line for line in fish if condition in line]
            long = [name for line in lines for name in re.findall(r" -l ([a-z-]+)", line.partition(" -d ")[0])]
            self.assertEqual(sorted(long), sorted(name[2:] for name in names_of(command) if name.startswith("--")),
                             command["name"])

    def test_fish_completes(self):
        program = shutil.which("fish")
        if program is None:
            self.skipTest("fish is not installed, which Quire does not need")
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "quire.fish")
            script.write_text(self.scripts["fish"])

            def complete(line):
                done = subprocess.run([program, "--no-config", "-c", f"source {script}; complete -C '{line}'"], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                                      env={**os.environ, "HOME": folder})
                self.assertEqual(done.stderr, "")
                return sorted(each.partition("\t")[0] for each in done.stdout.splitlines())

            self.assertEqual(complete("quire serve --log-format "), ["json", "text"])
            self.assertEqual(complete("quire completion b"), ["bash"])
            self.assertEqual(complete("quire bench "), sorted(
                words_of(each)[1] for each in facts("bench")["commands"]))
            for words in (["serve"], ["bench", "serve"], []):
                offered = [each for each in complete(f"quire {' '.join(words)} --".replace("  ", " ")) if each.startswith("--")]
                self.assertEqual(offered, sorted(each for each in names_of(facts(*words)) if each.startswith("--")))

    def test_zsh_and_fish_take_the_scripts(self):
        for shell in ("zsh", "fish"):
            program = shutil.which(shell)
            if program is None:
                continue  # not a package that Quire needs; their flags are compared above
            done = subprocess.run([program, "-n", "/dev/stdin"], input=self.scripts[shell], text=True,
                                  stderr=subprocess.PIPE, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), shell)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
