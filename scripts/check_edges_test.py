"""Tests of check_edges.py on small trees made for them."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_edges  # noqa: E402

# As declared in the project: enough DEPS that only EDGES decides, unless a test overrides one.
DEPS = {
    "base": "", "tensor": "base", "quant": "tensor base", "kernels": "quant tensor base",
    "nn": "kernels", "weights": "quant", "models": "nn weights", "text": "base", "core": "base",
    "plan": "models weights kernels", "exec": "models core", "sim": "core plan exec",
    "load": "models weights text core", "engine": "load exec core plan text",
    "serve": "engine text",
}


class CheckEdgesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, deps in DEPS.items():
            self.declare(name, deps)
        self.write("src/apps/CMakeLists.txt",
                   "add_executable(quire a.cpp)\n"
                   "target_link_libraries(quire PRIVATE quire_engine quire_sim CLI11::CLI11)\n")

    def write(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def declare(self, folder, deps):
        self.write(f"src/{folder}/CMakeLists.txt",
                   f"quire_library({folder} DEPS {deps}\n  EXTERNAL fmt::fmt)  # not DEPS text\n")

    def problems_of(self, folder, *includes):
        """What is said about a source in `folder` that holds these includes and nothing else."""
        text = "".join(f'#include "{name}"\n' for name in includes)
        self.write(f"src/{folder}/x.cpp", text)
        problems = check_edges.check(self.root)
        (self.root / f"src/{folder}/x.cpp").unlink()
        return problems

    def assert_allowed(self, folder, *includes):
        self.assertEqual(self.problems_of(folder, *includes), [])

    def assert_rejected(self, folder, include, saying):
        problems = self.problems_of(folder, "base/status.h", include)
        self.assertEqual(len(problems), 1, problems)
        self.assertTrue(problems[0].startswith(f"src/{folder}/x.cpp:2: "), problems)
        self.assertIn(saying, problems[0])

    def test_what_runs_on_any_device_knows_nothing_of_the_cpu(self):
        for folder in ("nn", "models", "exec"):
            self.assert_allowed(folder, "kernels/device.h", "kernels/packed_weight.h", "tensor/arena.h")
            for header in ("kernels/ops.h", "kernels/op_table.h", "kernels/cpu_device.h",
                           "tensor/thread_pool.h"):
                self.assert_rejected(folder, header, "runs on any device")
        self.assert_allowed("engine", "kernels/cpu_device.h", "tensor/thread_pool.h")
        self.write("src/nn/x_test_support.h", '#pragma once\n#include "kernels/cpu_device.h"\n')
        self.assert_allowed("nn")

    def test_an_empty_tree_is_clean(self):
        self.assertEqual(check_edges.check(self.root), [])

    def test_every_folder_may_include_base_and_itself(self):
        for folder in DEPS:
            with self.subTest(folder):
                self.declare("serve", "engine text base")
                self.assert_allowed(folder, "base/status.h", f"{folder}/deep/own.h")

    def test_edges_carry_through(self):
        self.assert_allowed("engine", "exec/executor.h", "models/spec.h", "weights/gguf.h",
                            "tensor/buffer.h", "core/scheduler.h", "text/tokenizer.h")
        self.assert_allowed("models", "nn/linear.h", "kernels/op_args.h", "quant/encoding.h")
        self.assert_allowed("apps", "engine/api.h", "sim/workload.h", "core/step.h", "nn/linear.h")

    def test_rejects_a_missing_edge(self):
        self.assert_rejected("core", "tensor/buffer.h", "core -> tensor is no edge; core may include base")
        self.assert_rejected("core", "exec/executor.h", "core -> exec is no edge")

    def test_rejects_upward_includes(self):
        self.assert_rejected("text", "weights/gguf.h", "text may include base")
        self.assert_rejected("models", "exec/model_runner.h", "models -> exec is no edge")
        self.assert_rejected("engine", "apps/main.h", "engine -> apps is no edge")

    def test_rejects_between_siblings(self):
        self.assert_rejected("weights", "kernels/ops.h", "weights -> kernels is no edge")
        self.assert_rejected("exec", "text/tokenizer.h", "exec -> text is no edge")

    def test_exec_sees_only_two_headers_of_core(self):
        self.assert_allowed("exec", "core/step.h", "core/sampling_params.h")
        self.assert_rejected("exec", "core/scheduler.h",
                             "of core it may include only sampling_params.h and step.h")

    def test_load_sees_of_core_what_a_request_may_ask_for(self):
        self.assert_allowed("load", "core/sampling_params.h", "core/sampling_table.h",
                            "models/registry.h", "text/tokenizer.h")
        self.assert_rejected("load", "core/scheduler.h",
                             "of core it may include only sampling_params.h and sampling_table.h")
        self.assert_rejected("load", "engine/api.h", "load -> engine is no edge")

    def test_sim_sees_only_the_executor_and_nothing_through_it(self):
        self.assert_allowed("sim", "exec/executor.h", "core/scheduler.h")
        self.assert_rejected("sim", "exec/kv_storage.h", "of exec it may include only executor.h")
        self.assert_rejected("sim", "nn/linear.h", "sim -> nn is no edge")

    def test_plan_sees_only_specs_and_sizes(self):
        self.assert_allowed("plan", "models/spec.h", "kernels/sizing.h", "weights/gguf.h",
                            "tensor/dtype.h")
        self.assert_rejected("plan", "models/registry.h", "of models it may include only spec.h")
        self.assert_rejected("plan", "kernels/ops.h", "of kernels it may include only sizing.h")
        self.assert_rejected("plan", "nn/linear.h", "plan -> nn is no edge")

    def test_serve_sees_only_the_engines_face(self):
        self.assert_allowed("serve", "engine/api.h", "text/chat_template.h")
        self.assert_rejected("serve", "engine/engine_core.h", "of engine it may include only api.h")
        self.assert_rejected("serve", "core/request.h", "serve -> core is no edge")

    def test_an_allowed_include_still_needs_its_declaration(self):
        self.declare("models", "weights base")
        self.assert_rejected("models", "nn/linear.h",
                             "src/models/CMakeLists.txt does not declare nn among its DEPS")

    def test_a_declaration_outside_the_edges_is_rejected(self):
        self.declare("core", "base tensor")
        self.assertEqual(check_edges.check(self.root),
                         ["src/core/CMakeLists.txt:1: core -> tensor is no edge; "
                          "core may depend on base"])

    def test_what_is_declared_after_the_folders_is_no_folder(self):
        for rest in ("EXTERNAL fmt::fmt", "WITHOUT cuda/", "TEST_PARTS 2", "TESTS_COMPUTE"):
            self.write("src/core/CMakeLists.txt", f"quire_library(core DEPS base {rest})\n")
            self.assertEqual(check_edges.check(self.root), [], rest)

    def test_a_declaration_of_no_folder_is_rejected(self):
        self.declare("core", "base pixie")
        self.assertIn("DEPS names pixie", check_edges.check(self.root)[0])

    def test_angle_brackets_are_no_way_around(self):
        self.write("src/tensor/buffer.h", "#pragma once\n")
        self.write("src/core/x.cpp", "#include <vector>\n  #  include <tensor/buffer.h>\n")
        problems = check_edges.check(self.root)
        self.assertEqual(len(problems), 1)
        self.assertTrue(problems[0].startswith("src/core/x.cpp:2: core may not include"), problems)

    def test_includes_start_with_a_folder(self):
        for name in ("request.h", "../tensor/buffer.h", "fmt/core.h"):
            with self.subTest(name):
                self.assert_rejected("core", name, "does not start with a folder of src/")

    def test_tests_beside_the_code_are_held_to_the_same(self):
        self.write("src/core/request_test.cpp", '#include "sim/simulated_executor.h"\n')
        self.assertEqual(len(check_edges.check(self.root)), 1)

    def test_commented_includes_do_not_count(self):
        self.write("src/core/x.cpp", '// #include "tensor/buffer.h"\n')
        self.assertEqual(check_edges.check(self.root), [])

    def test_an_unknown_folder_is_rejected(self):
        self.write("src/pixie/x.cpp", "")
        self.assertIn("src/pixie:1: not a layer", check_edges.check(self.root)[0])

    def test_no_containers_in_instruction_set_files(self):
        self.write("src/kernels/cpu/avx2/matmul.cpp",
                   "#include <immintrin.h>\n#include <cstdint>\n#include <vector>\n")
        problems = check_edges.check(self.root)
        self.assertEqual(len(problems), 1)
        self.assertTrue(problems[0].startswith("src/kernels/cpu/avx2/matmul.cpp:3: <vector>"))

    def test_containers_elsewhere_in_kernels_are_fine(self):
        for path in ("src/kernels/ref/matmul.cpp", "src/kernels/cpu/features.cpp",
                     "src/kernels/cpu/avx512/matmul_test.cpp"):
            self.write(path, "#include <vector>\n")
        self.assertEqual(check_edges.check(self.root), [])

    def test_subfolders_of_serve_form_no_circle(self):
        self.write("src/serve/http/a.h", "#pragma once\n")
        self.write("src/serve/models/m.h", '#pragma once\n#include "serve/http/a.h"\n')
        self.write("src/serve/service.h", '#pragma once\n#include "serve/models/m.h"\n')
        self.write("src/serve/protocols/x/y.h", '#pragma once\n#include "serve/service.h"\n')
        self.assertEqual(check_edges.check(self.root), [])
        self.write("src/serve/http/b.cpp", '\n#include "serve/protocols/x/y.h"\n')
        problems = check_edges.check(self.root)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn("folders of serve depend on each other", problems[0])
        for folder in ("serve", "serve/http", "serve/models", "serve/protocols/x"):
            self.assertIn(folder, problems[0])

    def test_tests_and_what_helps_them_may_look_up(self):
        self.write("src/serve/service.h", '#pragma once\n#include "serve/http/a.h"\n')
        self.write("src/serve/http/a.h", "#pragma once\n")
        for name in ("a_test.cpp", "test_exchange.h", "a_fixture.h", "a_support.h"):
            self.write(f"src/serve/http/{name}", '#pragma once\n#include "serve/service.h"\n')
        self.assertEqual(check_edges.check(self.root), [])

    def test_headers_need_pragma_once(self):
        self.write("src/core/a.h", "// a\n#pragma once\n")
        self.write("src/core/b.h", "#ifndef B\n#define B\n#endif\n")
        self.write("tests/support/c.h", "// no #pragma once\n")
        self.assertEqual(check_edges.check(self.root),
                         ["src/core/b.h:1: a header needs #pragma once",
                          "tests/support/c.h:1: a header needs #pragma once"])

    def test_the_program_exits_with_the_verdict(self):
        program = [sys.executable, check_edges.__file__, str(self.root)]
        self.assertEqual(subprocess.run(program, capture_output=True).returncode, 0)
        self.write("src/core/x.cpp", '#include "exec/executor.h"\n')
        result = subprocess.run(program, capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("src/core/x.cpp:1: core may not include exec/executor.h", result.stderr)


if __name__ == "__main__":
    unittest.main()
