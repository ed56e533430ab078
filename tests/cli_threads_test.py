#!/usr/bin/env python3
"""The system allows no more threads: whichever of the program's threads is the one that cannot
start, the program says so and ends with 69, or has all it needs and works.

    cli_threads_test.py PROGRAM SOURCE_DIR
"""

import itertools
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
# The limit counts a user's threads: each process is one's that runs nothing else, also where this
# test runs twice at a time.
USERS = itertools.count(20_000 + os.getpid() % 400 * 100)
MOST_THREADS = 24
MOST_ROUNDS = 5


def start(num_threads, arguments, folder):
    user = next(USERS)

    def limit():
        resource.setrlimit(resource.RLIMIT_NPROC, (num_threads, num_threads))
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)

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

    def check(self, refused, names):
        """A thread counts for a moment after it has ended, so that one of those that come later may
        be the first to fail: then again."""
        wanted = {f"cannot start the thread {name}" for name in names}
        told = ""
        for _ in range(MOST_ROUNDS):
            endings = refused()
            self.assertTrue(endings)
            for code, errors in endings:
                self.assertEqual(code, UNAVAILABLE, errors)
                self.assertIn("ulimit -u", errors)
                self.assertIn("cannot start the thread", errors)
                self.assertNotIn("standard output", errors)
                told += errors
            if all(each in told for each in wanted):
                return
        self.fail(f"not all of {wanted} in: {told}")

    def test_a_thread_that_cannot_start_ends_generate_with_69(self):
        def works(process):
            process.wait(timeout=60)
            return process.returncode == 0

        arguments = ["generate", "--model", TINY / "hf", "--prompt", "abc", "--max-tokens", "4",
                     "--threads", "2"]
        self.check(lambda: self.refused(arguments, works), ["quire-output", "quire-engine"])

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

        def refused():
            endings.clear()
            self.refused(arguments, ready)
            return list(endings)

        endings = []
        arguments = ["serve", "--model", TINY / "hf", "--port", "0", "--threads", "2",
                     "--event-log", pathlib.Path("events")]
        self.check(refused, ["quire-worker", "quire-log", "quire-executor", "quire-output",
                             "quire-engine", "quire-live", "quire-signals"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
