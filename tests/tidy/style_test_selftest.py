#!/usr/bin/env python3
"""Shows that each rule of style_test.py catches what it is for, and lets pass what it must: plants one break of one rule at a
time in a clean tree of its own. A rule without a planted break here fails this test too.

    python3 tests/tidy/style_test_selftest.py
"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import style_test  # noqa: E402


def header(room, *lines, include=""):
    """A header that is at home in its room."""
    return f"#pragma once\n{include}\nnamespace {style_test.namespace_of(room)} {{\n" + "\n".join(lines) + "\n}\n"


CLEAN = {
    "schemas/ids.hpp": header("schemas", "struct id { int value; };", "namespace detail { int helper(); }"),
    "schemas/log.hpp": header("schemas", "void log();", include="#include <spdlog/spdlog.h>"),
    "schemas/wire.capnp": '@0x1;\nusing Cxx = import "/capnp/c++.capnp";\n$Cxx.namespace("baton::wire");\n',
    "schemas/codec_detail.hpp": header("schemas", "void put();", include="#include <capnp/message.h>"),
    "schemas/codec.cpp": '#include "schemas/codec_detail.hpp"\n#include "schemas/wire.capnp.h"\nnamespace baton {}\n',
    "transports/ucx_worker.hpp": header("transports", "class worker;", include="#include <ucp/api/ucp.h>"),
    "transports/ucx_transport.cpp": '#include "transports/ucx_worker.hpp"\n'
                                    'namespace baton::gpu {\nclass device;\n}\n'
                                    'namespace baton::transports {\nstd::thread progress;\n}\n',
    "actors/protocol/log.hpp": header("actors/protocol", "struct log { std::chrono::steady_clock::time_point at; };"),
    "actors/protocol/log.cpp": '// system_clock, rand(), std::thread: in a comment\n#include "actors/protocol/log.hpp"\n'
                               'namespace baton::actors::protocol {\nnamespace {\nconst char* text = "system_clock {";\n'
                               "constexpr int many = 1'000'000;\n}\nlog::log() : at{}, many{1} {\n  operand(1);\n}\n}\n",
    "actors/runtime.hpp": header("actors", "class runtime;"),
    "actors/node.cpp": '#include <caf/all.hpp>\n#include "actors/runtime.hpp"\nnamespace baton::actors {\n'
                       "auto cores = std::thread::hardware_concurrency();\n}\n"
                       "namespace std {\ntemplate <> struct hash<int> {};\n}\n",
    "actors/engines/llama_engine.cpp": "#include <llama.h>\nnamespace baton::actors::engines {}\n",
    "apps/http/server.cpp": "#include <boost/asio.hpp>\n#include <nlohmann/json.hpp>\nnamespace baton::apps::http {}\n",
    "apps/main.cpp": '#include "actors/runtime.hpp"\nint main() { return 0; }\n',
    "tests/unit/node_test.cpp": "#include <catch2/catch.hpp>\n#include <caf/all.hpp>\nvoid f() { sleep_for(1); }\n",
}


def body(lines):
    return "namespace baton {\nint long_one(int a,\n             int b) {\n" + "  a += b;\n" * (lines - 3) + "}\n}\n"


# (rule, file, its text): each must be caught by its rule, in that file, and by no other rule.
PLANTED = [
    # arrows
    ("arrow", "schemas/a.hpp", header("schemas", include='#include "transports/transport.hpp"')),
    ("arrow", "transports/a.hpp", header("transports", include='#include "gpu/device.hpp"')),
    ("arrow", "transports/a.hpp", header("transports", include='#include "actors/node.hpp"')),
    ("arrow", "gpu/a.hpp", header("gpu", include='#include "transports/transport.hpp"')),
    ("arrow", "actors/a.hpp", header("actors", include='#include "apps/demo.hpp"')),
    ("arrow", "actors/protocol/a.hpp", header("actors/protocol", include='#include "actors/node.hpp"')),
    ("arrow", "actors/protocol/a.hpp", header("actors/protocol", include='#include "actors/engines/engine.hpp"')),
    ("arrow", "actors/engines/a.hpp", header("actors/engines", include='#include "transports/transport.hpp"')),
    ("arrow", "actors/engines/a.hpp", header("actors/engines", include='#include "actors/protocol/log.hpp"')),
    ("arrow", "actors/a.hpp", header("actors", include='#include "tests/fake.hpp"')),
    ("arrow", "apps/http/a.hpp", header("apps/http", include='#include "transports/transport.hpp"')),
    # include lines
    ("include-path", "schemas/a.hpp", header("schemas", include='#include "ids.hpp"')),
    ("include-path", "schemas/a.hpp", header("schemas", include='#include "../schemas/ids.hpp"')),
    ("include-path", "gpu/a.hpp", header("gpu", include='#include "schemas/../gpu/b.hpp"')),
    ("include-path", "gpu/a.hpp", header("gpu", include="#include <schemas/ids.hpp>")),
    ("include-path", "tests/unit/a.cpp", '#include "helper.hpp"\n'),
    ("own-header", "actors/runtime.cpp", '#include <vector>\n#include "actors/runtime.hpp"\nnamespace baton::actors {}\n'),
    ("own-header", "actors/runtime.cpp", "namespace baton::actors {}\n"),
    # third parties outside their owner, directly
    ("owner", "actors/a.cpp", "#include <capnp/message.h>\n"),
    ("owner", "transports/a.cpp", "#include <kj/async.h>\n"),
    ("owner", "transports/a.cpp", '#include "schemas/wire.capnp.h"\n'),
    ("owner", "actors/a.cpp", "#include <ucp/api/ucp.h>\n"),
    ("owner", "gpu/a.cpp", "#include <ucs/type/status.h>\n"),
    ("owner", "actors/a.cpp", "#include <grpcpp/grpcpp.h>\n"),
    ("owner", "transports/a.cpp", "#include <cuda_runtime.h>\n"),
    ("owner", "transports/a.cpp", "#include <caf/all.hpp>\n"),
    ("owner", "actors/protocol/a.cpp", "#include <caf/all.hpp>\n"),
    ("owner", "actors/engines/a.cpp", "#include <caf/all.hpp>\n"),
    ("owner", "actors/runtime.hpp", header("actors", include="#include <caf/actor.hpp>")),
    ("owner", "actors/completion_service.hpp", header("actors", include="#include <caf/actor.hpp>")),
    ("owner", "actors/messages.hpp", header("actors", include="#include <caf/actor.hpp>")),
    ("owner", "actors/link_driver.cpp", "#include <caf/all.hpp>\n"),
    ("owner", "actors/gateway_core.cpp", '#include "schemas/log.hpp"\n'),
    ("owner", "actors/node.cpp", "#include <llama.h>\n"),
    ("owner", "actors/engines/toy_engine.cpp", "#include <ggml-cpu.h>\n"),
    ("owner", "apps/a.cpp", "#include <sqlite3.h>\n"),
    ("owner", "actors/protocol/a.cpp", "#include <sqlite3.h>\n"),
    ("owner", "actors/a.cpp", "#include <sqlite3.h>\n"),
    ("owner", "actors/a.cpp", "#include <curl/curl.h>\n"),
    ("owner", "actors/a.cpp", "#include <openssl/evp.h>\n"),
    ("owner", "apps/a.cpp", "#include <boost/asio.hpp>\n"),
    ("owner", "actors/a.hpp", header("actors", include="#include <nlohmann/json.hpp>")),
    ("owner", "schemas/a.cpp", "#include <nlohmann/json.hpp>\n"),
    ("owner", "actors/node.cpp", "#include <toml++/toml.h>\n"),
    ("owner", "actors/a.cpp", "#include <CLI/CLI.hpp>\n"),
    ("owner", "gpu/a.cpp", "#include <xxhash.h>\n"),
    ("owner", "gpu/a.cpp", "#include <spdlog/spdlog.h>\n"),
    ("owner", "gpu/a.cpp", "#include <catch2/catch.hpp>\n"),
    ("owner", "actors/protocol/a.cpp", '#include "schemas/log.hpp"\n'),
    # ... and through a header of ours
    ("owner-behind", "transports/a.cpp", '#include "schemas/codec_detail.hpp"\n'),
    ("owner-behind", "actors/a.cpp", '#include "transports/ucx_worker.hpp"\n'),
    # namespaces
    ("namespace", "gpu/a.hpp", header("schemas")),
    ("namespace", "gpu/a.hpp", "#pragma once\nint everywhere();\n"),
    ("namespace", "gpu/a.hpp", header("transports")),
    ("namespace", "gpu/a.cpp", "namespace baton {\nint f() { return 1; }\n}\n"),
    ("namespace", "gpu/a.cpp", "namespace gpu {\nint f() { return 1; }\n}\n"),
    ("namespace", "schemas/a.cpp", "namespace baton::gpu {\nint f() { return 1; }\n}\n"),
    ("namespace", "actors/engines/a.hpp", header("actors")),
    ("namespace", "actors/a.hpp", header("actors/engines")),
    ("namespace", "schemas/a.capnp", '@0x2;\n$Cxx.namespace("wire");\n'),
    # time, chance, concurrency
    ("wall-clock", "actors/a.cpp", "auto now = std::chrono::system_clock::now();\n"),
    ("wall-clock", "tests/unit/a.cpp", "auto now = std::chrono::system_clock::now();\n"),
    ("random", "actors/a.cpp", "int x = std::rand();\n"),
    ("random", "tests/unit/a.cpp", "int x = rand ();\n"),
    ("sleep", "actors/a.cpp", "void f() { std::this_thread::sleep_for(1s); }\n"),
    ("sleep", "transports/a.cpp", "void f() { usleep(1); }\n"),
    ("thread", "actors/a.cpp", "std::thread worker;\n"),
    ("thread", "gpu/a.hpp", header("gpu", "std::jthread worker;")),
    ("pure", "actors/protocol/a.cpp", "auto now = std::chrono::steady_clock::now();\n"),
    ("pure", "actors/protocol/a.cpp", "std::mutex mutex;\n"),
    ("pure", "actors/gateway_core.cpp", "auto now = std::chrono::steady_clock::now();\n"),
    ("pure", "actors/link_driver.cpp", "auto now = std::chrono::steady_clock::now();\n"),
    # lengths
    ("file-length", "gpu/a.cpp", "\n" * (style_test.MAX_FILE_LINES + 1)),
    ("function-length", "schemas/a.cpp", body(style_test.MAX_FUNCTION_LINES + 1)),
    ("function-length", "schemas/a.cpp", "namespace baton {\nx::x() : a_{1}, b_{2} {\n" + "  f();\n" * 90 + "}\n}\n"),
    ("function-length", "schemas/a.cpp", "class x {\n int f() const {\n" + "  g({1});\n" * 90 + " }\n};\n"),
    # every text file
    ("registry", "tools/a.sh", "curl https://" + "pypi" + ".org/simple\n"),
    ("registry", "docs/a.md", "from https://files." + "pythonhosted" + ".org/x\n"),
    ("registry", "tools/a.sh", "deb http://" + "deb.debian" + ".org/debian bookworm main\n"),
    ("machine-path", "docs/a.md", "see /" + "work/main\n"),
    ("machine-path", "CMakeLists.txt", 'set(x "/' + 'root/.cache")\n'),
    ("unfinished", "gpu/a.cpp", "// TO" + "DO: later\n"),
    ("unfinished", "tools/a.py", "# FIX" + "ME\n"),
]

# Near misses that no rule may catch.
HARMLESS = [
    ("gpu/a.cpp", "\n" * style_test.MAX_FILE_LINES),
    ("schemas/a.cpp", body(style_test.MAX_FUNCTION_LINES)),
    ("schemas/a.cpp", "namespace baton {\nint a() {\n" + "  f();\n" * 60 + "}\nint b() {\n" + "  f();\n" * 60 + "}\n}\n"),
    ("tests/unit/a.cpp", body(style_test.MAX_FUNCTION_LINES * 2)),
    ("actors/a.cpp", "int operand(int x);\nint y = operand(1) + generator.rand();\n"),
    ("actors/a.cpp", "/* #include <boost/asio.hpp>\n   std::thread */\n"),
    ("actors/graph_file.cpp", "#include <toml++/toml.h>\n"),
    ("docs/a.md", "a network/work/flow, and $HOME/work/x\n"),
]


class StyleTest(unittest.TestCase):
    def problems(self, changes):
        """What style_test says of the clean tree with these files written over it."""
        with tempfile.TemporaryDirectory() as root:
            for name, text in {**CLEAN, **changes}.items():
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(text)
            return style_test.check_tree(root)[0]

    def test_clean_tree_passes(self):
        self.assertEqual(self.problems({}), [])

    def test_each_planted_break_is_caught_by_its_rule_alone(self):
        for rule, name, text in PLANTED:
            with self.subTest(rule=rule, file=name, text=text[:100]):
                self.assertEqual({(found[0], found[2]) for found in self.problems({name: text})}, {(name, rule)})

    def test_near_misses_pass(self):
        for name, text in HARMLESS:
            with self.subTest(file=name, text=text[:100]):
                self.assertEqual(self.problems({name: text}), [])

    def test_reports_the_line(self):
        found = self.problems({"gpu/a.cpp": "\n// a comment\nint x = rand();\n"})
        self.assertEqual([(name, line) for name, line, _, _ in found], [("gpu/a.cpp", 3)])

    def test_every_owner_and_call_has_a_planted_break(self):
        caught = [text for rule, _, text in PLANTED if rule == "owner"]
        for pattern, library, _ in style_test.OWNERS:
            hit = any(style_test.re.match(pattern, path) for text in caught for _, _, path in style_test.includes_of(text))
            self.assertTrue(hit, f"no planted break for {library}")
        rules = {rule for rule, _, _ in PLANTED}
        for rule in [entry[0] for entry in style_test.FORBIDDEN + style_test.EVERYWHERE]:
            self.assertIn(rule, rules)

    def test_git_decides_which_files_are_ours(self):
        with tempfile.TemporaryDirectory() as root:
            subprocess.run(["git", "init", "-q", root], check=True)
            for name, text in {".gitignore": "/build/\n", "build/a.cpp": "", "gpu/new.cpp": ""}.items():
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(text)
            self.assertEqual(style_test.list_files(root), [".gitignore", "gpu/new.cpp"])

    def test_the_command_fails_on_a_break_and_on_an_empty_tree(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "style_test.py")
        with tempfile.TemporaryDirectory() as root:
            status = [subprocess.run([sys.executable, "-B", script, root], stdout=subprocess.DEVNULL).returncode]
            for text in ("int x;\n", "int x = rand();\n"):
                with open(os.path.join(root, "a.cpp"), "w", encoding="utf-8") as file:
                    file.write(text)
                os.makedirs(os.path.join(root, "gpu"), exist_ok=True)
                os.replace(os.path.join(root, "a.cpp"), os.path.join(root, "gpu", "a.cpp"))
                status.append(subprocess.run([sys.executable, "-B", script, root], stdout=subprocess.DEVNULL).returncode)
        self.assertEqual(status, [1, 0, 1])


if __name__ == "__main__":
    unittest.main()
