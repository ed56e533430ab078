#!/usr/bin/env python3
"""The system allows no more threads: whichever of the program's threads is the one that cannot
start, the program says so and ends with 69, or has all it needs and works.

    cli_threads_test.py PROGRAM SOURCE_DIR
"""

import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

from cli_support import PROGRAM, TINY

UNAVAILABLE = 69
USER = 54321  # one that runs nothing else: the limit counts a user's threads
MOST_THREADS = 24


def start(num_threads, arguments, folder):
    def limit():
        resource.setrlimit(resource.RLIMIT_NPROC, (num_threads, num_threads))
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)

    return subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=folder, preexec_fn=limit,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@unittest.skipUnless(os.geteuid() == 0, "a limit of another user's threads needs root")
class Threads(unittest.TestCase):
    def refused(self, arguments, is_up):
        """The exit codes and messages with 1, 2, ... threads, up to the first that works."""
        endings = []
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            for num_threads in range(1, MOST_THREADS):
                process = start(num_threads, arguments, folder)
                try:
                    if is_up(process):
                        return endings
                    _, errors = process.communicate(timeout=60)
                finally:
                    process.kill()
                    process.communicate()
                endings.append((process.returncode, errors))
        self.fail(f"never works: {endings[-1]}")

    def check(self, endings, names):
        self.assertGreaterEqual(len(endings), len(names))
        for code, errors in endings:
            self.assertEqual(code, UNAVAILABLE, errors)
            self.assertIn("ulimit -u", errors)
            self.assertIn("cannot start the thread", errors)
            self.assertNotIn("standard output", errors)
        told = "".join(errors for _, errors in endings)
        for name in names:
            self.assertIn(f"cannot start the thread {name}", told)

    def test_a_thread_that_cannot_start_ends_generate_with_69(self):
        def works(process):
            process.wait(timeout=60)
            return process.returncode == 0

        arguments = ["generate", "--model", TINY / "hf", "--prompt", "abc", "--max-tokens", "4",
                     "--threads", "2"]
        self.check(self.refused(arguments, works), ["quire-output", "quire-engine"])

    def test_a_thread_that_cannot_start_ends_serve_with_69(self):
        def ready(process):
            lines = []
            for line in process.stderr:
                lines.append(line)
                if "http://" in line:
                    process.send_signal(signal.SIGTERM)
                    return process.wait(timeout=60) == 0
            process.wait(timeout=60)
            self.assertEqual(process.returncode, UNAVAILABLE, lines)
            endings.append((process.returncode, "".join(lines)))
            return False

        endings = []
        arguments = ["serve", "--model", TINY / "hf", "--port", "0", "--threads", "2",
                     "--event-log", pathlib.Path("events")]
        self.refused(arguments, ready)
        self.check(endings, ["quire-worker", "quire-log", "quire-executor", "quire-output",
                             "quire-engine", "quire-live", "quire-signals"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
