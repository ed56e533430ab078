#!/usr/bin/env python3
"""Tests of check_clang.py: what it takes from a compile command."""

import json
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


class Jobs(unittest.TestCase):
    def jobs_of(self, *files):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder).resolve()
            entries = [{"directory": str(build), "file": file,
                        "command": f"c++ -std=c++20 -o src/CMakeFiles/a.dir/a.o -c {file}"} for file in files]
            (build / "compile_commands.json").write_text(json.dumps(entries))
            return list(check_clang.jobs_of(build))

    def test_what_is_generated_is_not_parsed(self):
        source = check_clang.ROOT / "src/a.cpp"
        self.assertEqual(self.jobs_of(str(source), "made/files_data.cpp"),
                         [(source, ("-std=c++20",), "src/CMakeFiles/a.dir")])

    def test_sources_that_are_compiled_as_one_are_not_passed_over(self):
        with self.assertRaisesRegex(SystemExit, "unity_src_a_cxx.cxx.*QUIRE_COMPILE_BY_FOLDER"):
            self.jobs_of("Unity/unity_src_a_cxx.cxx")


class Units(unittest.TestCase):
    def test_what_a_target_compiles_alike_in_a_folder_is_parsed_together(self):
        root = check_clang.ROOT
        plain, level = ("-std=c++20",), ("-std=c++20", "-mavx2")
        jobs = [(root / "src/a/one.cpp", plain, "a.dir"), (root / "src/a/two.cpp", plain, "a.dir"),
                (root / "src/a/one_test.cpp", plain, "a_test.dir"),
                (root / "src/a/b/three.cpp", plain, "a.dir"),
                (root / "src/a/four.cpp", level, "a.dir"), (root / "src/a/five.cpp", level, "a.dir"),
                # Of two targets once, but twice if a switch makes it another.
                (root / "src/a/two.cpp", plain, "z.dir"),
                (root / "src/a/two.cpp", (*plain, "-DQUIRE_OTHER"), "z.dir"),
                # Names in tests/ need not differ.
                (root / "tests/x.cpp", plain, "x.dir"), (root / "tests/y.cpp", plain, "x.dir")]
        units = [[path.name for path, _ in unit] for unit in check_clang.together(jobs)]
        self.assertCountEqual(units, [["one.cpp", "two.cpp"], ["two.cpp"], ["one_test.cpp"],
                                      ["three.cpp"], ["four.cpp"], ["five.cpp"], ["x.cpp"],
                                      ["y.cpp"]])

    def test_messages_name_the_file_and_the_line(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder, name) for name in ("a.cpp", "b.cpp")]
            for path in paths:
                path.write_text("int first();\nstatic const int unused = 1;")
            unit = pathlib.Path(folder, "unit.cpp")
            unit.write_text(check_clang.joined(paths))
            lines = unit.read_text().splitlines()
        self.assertEqual(lines, [f'#line 1 "{paths[0]}"', "int first();", "static const int unused = 1;",
                                 f'#line 1 "{paths[1]}"', "int first();",
                                 "static const int unused = 1;"])


if __name__ == "__main__":
    unittest.main()
