#!/usr/bin/env python3
"""Tests of check_clang.py: what it takes from a compile command."""

import pathlib
import tempfile
import unittest

import check_clang


class Flags(unittest.TestCase):
    def test_only_what_parsing_depends_on(self):
        flags = check_clang.flags_of(
            'ccache /usr/bin/c++ -DA=1 -DQUIRE_SOURCE_DIR=\\"/x\\" -I/src -isystem /lib -O3 -g -fPIC '
            "-ffp-contract=off -Wall -Werror -std=c++20 -mavx2 -falign-loops=64 -o a.o -c /src/a.cpp")
        self.assertEqual(flags, ("-DA=1", '-DQUIRE_SOURCE_DIR="/x"', "-I/src", "-isystem/lib", "-Wall",
                                 "-Werror", "-std=c++20", "-mavx2"))
        self.assertTrue(check_clang.has_instruction_set(flags))
        self.assertFalse(check_clang.has_instruction_set(flags[:-1]))

    def test_values_are_shared_and_switches_are_not(self):
        self.assertTrue(check_clang.is_switch("-DQUIRE_EMULATE_WIDE_VECTORS"))
        self.assertFalse(check_clang.is_switch('-DQUIRE_VERSION="1"'))
        self.assertFalse(check_clang.is_switch("-DFMT_SHARED"))

    def test_what_few_files_include_is_not_precompiled(self):
        with tempfile.TemporaryDirectory() as folder:
            sources = set()
            for i in range(check_clang.FEW):
                path = pathlib.Path(folder, f"{i}.cpp")
                path.write_text("#include <of/all.h>\n#include <immintrin.h>\n" +
                                ("#include <of/one.h>\n" if i == 0 else ""))
                sources.add(path)
            headers = check_clang.common_headers(sources)
        self.assertIn("of/all.h", headers)
        self.assertIn("vector", headers)
        self.assertNotIn("of/one.h", headers)
        self.assertNotIn("immintrin.h", headers)


if __name__ == "__main__":
    unittest.main()
