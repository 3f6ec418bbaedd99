"""Bad input of every kind: one clear line that names the thing, the documented exit code, and nothing left running."""
import json
import os
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import openai

from harness import BINARY, PATIENT, SHARED_MEMORY, Case, Deployment, deployment_text, free_port, is_alive, run, stream, wait_until


class BadDeployment(Case):
    def refused(self, text, *more, code=2):
        """Runs a deployment that must not start; returns what it says on standard error."""
        before = SHARED_MEMORY.files()
        with tempfile.TemporaryDirectory(prefix="baton-e2e-") as folder:
            file = os.path.join(folder, "bad.toml")
            with open(file, "w", encoding="utf-8") as out:
                out.write(text)
            status, _, said = run("run", file, "--log-level", "error", *more)
            self.assertEqual(status, code, said)
            self.assertIn("bad.toml", said)
            self.assertEqual(len(said.strip().splitlines()), 1, said)
        self.assertEqual(SHARED_MEMORY.left(before), set())
        return said

    def text(self, **how):
        return deployment_text(free_port(), free_port(), **how)

    def test_unknown_key(self):
        said = self.refused(self.text() + "colour = 1\n")
        self.assertRegex(said, r"bad\.toml:\d+: link\[3\]\.colour: unknown key; known here are every_tokens, from, to")

    def test_unknown_type(self):
        said = self.refused(self.text(nodes=("a",)).replace('"gateway"', '"gatewai"'))
        self.assertRegex(said, r'bad\.toml:\d+: actor\.edge\.type: expected "orchestrator", "gateway" or "node"')

    def test_not_toml(self):
        self.assertIn("bad.toml:1: not TOML", self.refused("[deployment"))

    def test_missing_model(self):
        said = self.refused(self.text(nodes=("a",), engine='{ type = "llama", model = "/no/such.gguf" }'))
        self.assertIn("actor.a.engine.model", said)
        self.assertIn("/no/such.gguf", said)

    def test_unknown_command(self):
        self.assertEqual(run("frobnicate"), (2, "", 'baton: no command is called "frobnicate"; baton --help lists them\n'))
        self.assertEqual(run("demo", "--kill", "nuke")[0], 2)
        self.assertIn("expected kill, stop, cut or term, found nuke", run("demo", "--kill", "nuke")[2])

    def test_case_55_a_draft_model(self):
        """Speculative decoding is not there; what asks for it is refused by name."""
        with tempfile.NamedTemporaryFile(suffix=".gguf") as model:
            engine = f'{{ type = "llama", model = "{model.name}", draft_model = "{model.name}" }}'
            said = self.refused(self.text(nodes=("a",), engine=engine))
        self.assertIn("actor.a.engine.draft_model: unknown key", said)

    def test_a_model_that_is_none(self):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as model:
            model.write(b"not a model")
            model.flush()
            said = self.refused(self.text(nodes=("a",), engine=f'{{ type = "llama", model = "{model.name}" }}'),
                                "--process", "a", code=3)
            self.assertTrue(model.name in said or "no llama.cpp" in said, said)

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            said = self.refused(deployment_text(free_port(), port), code=3)
            self.assertIn("actor.edge", said)
            self.assertIn(f"127.0.0.1:{port}", said)
            said = self.refused(deployment_text(port, free_port()), code=3)
            self.assertIn("actor.control", said)
            self.assertIn(f"127.0.0.1:{port}", said)

    def test_unknown_process(self):
        self.assertIn('found "z"', self.refused(self.text(), "--process", "z"))

    def test_store_that_cannot_be(self):
        said = self.refused(self.text(nodes=("a",)).replace("sqlite:state.db", "sqlite:/no/such/folder/state.db"), code=3)
        self.assertIn("actor.control", said)
        self.assertIn("/no/such/folder/state.db", said)

    def test_no_file(self):
        code, _, said = run("run", "/no/such/file.toml")
        self.assertEqual((code, said), (2, "baton: /no/such/file.toml: No such file or directory\n"))
        code, _, said = run("run", "/")
        self.assertEqual((code, said), (2, "baton: /: expected a deployment file, found a folder\n"))

    def test_a_second_orchestrator_on_the_same_store(self):
        with Deployment(nodes=("a",)) as running:
            store = os.path.join(running.folder.name, "state.db")
            said = self.refused(self.text(nodes=("a",)).replace("sqlite:state.db", f"sqlite:{store}"), code=3)
            self.assertIn("another orchestrator has it", said)
            stream(running, [{"role": "user", "content": "still there?"}], max_tokens=5)

    def test_a_store_that_was_lost(self):
        """Nothing is decided from an empty store for who has obeyed another one, and it is said; streams go on."""
        with Deployment() as running:
            running.signal("control", signal.SIGKILL)
            wait_until(lambda: not is_alive(running.pids["control"]), 5, "it is dead")
            for name in os.listdir(running.folder.name):
                if name.startswith("state.db"):
                    os.unlink(os.path.join(running.folder.name, name))
            control = subprocess.Popen([BINARY, "run", running.file, "--process", "control"], stdout=subprocess.DEVNULL,
                                       stderr=running.log)
            orchestrator = f"127.0.0.1:{running.control_port}"

            def refused():
                code, status, _ = run("status", "--json", "--orchestrator", orchestrator)
                return code == 0 and sorted(json.loads(status)["refused"]) == ["a", "b", "c", "edge"]

            wait_until(refused, 20, "all that have obeyed the lost store are refused")
            code, status, _ = run("status", "--orchestrator", orchestrator)
            self.assertIn("REFUSED      a, b, c, edge", status)
            self.assertIn("this store was lost or is an old copy", running.logged())
            self.assertIn("registration refused: the orchestrator's store is not the one", running.logged())
            stream(running, [{"role": "user", "content": "still there?"}], max_tokens=5)
            control.terminate()
            control.wait(timeout=20)

    def test_a_second_process_under_one_name(self):
        with Deployment(defaults=PATIENT) as running:
            with open(os.path.join(running.folder.name, "second"), "w+", encoding="utf-8") as log:
                second = subprocess.Popen([BINARY, "run", running.file, "--process", "a"], stdout=subprocess.DEVNULL, stderr=log)
                wait_until(lambda: any(event["cause"] == "restarted" for event in running.status()["failovers"]), 10,
                           "the later one replaces the earlier")
                epochs = [group["epoch"] for group in running.status()["groups"]]
                wait_until(running.healthy, 10, "the cluster goes on with the later one")
                stream(running, [{"role": "user", "content": "still there?"}], max_tokens=200)
                after = [group["epoch"] for group in running.status()["groups"]]
                self.assertLess(max(after) - max(epochs), 30)  # a handful of changes, no storm
                second.terminate()
                second.wait(timeout=20)


class BadArguments(Case):
    def test_usage(self):
        for arguments in ((), ("nonsense",), ("demo", "--tokens", "many"), ("demo", "--kill", "politely"),
                          ("demo", "--engine", "toy", "--tokens", "8", "--kill-after", "8"),
                          ("demo", "--model", "/no/such.gguf"), ("demo", "--engine", "toy", "--commit", "maybe"),
                          ("demo", "--engine", "toy", "--kill", "cut", "--transport", "ucx-shm"),
                          ("status", "--orchestrator", "nowhere")):
            code, _, said = run(*arguments)
            self.assertEqual(code, 2, (arguments, said))
            self.assertTrue(said.strip(), arguments)

    def test_help_and_version(self):
        for arguments in (("--help",), ("run", "--help"), ("demo", "--help"), ("status", "--help"), ("bench", "--help"),
                          ("--version",)):
            code, out, _ = run(*arguments)
            self.assertEqual(code, 0, arguments)
            self.assertTrue(out.strip(), arguments)

    def test_nobody_answers(self):
        port = free_port()
        code, _, said = run("status", "--orchestrator", f"127.0.0.1:{port}")
        self.assertEqual(code, 3)
        self.assertIn(str(port), said)
        with socket.socket() as silent:  # takes the connection and says nothing
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            port = silent.getsockname()[1]
            with self.within(5, "giving up"):
                code, _, said = run("status", "--orchestrator", f"127.0.0.1:{port}", "--timeout-ms", "500")
            self.assertEqual(code, 3)
            self.assertIn(str(port), said)


class BadRequest(Case):
    @classmethod
    def setUpClass(cls):
        cls.running = Deployment(nodes=("a", "b"), engine='{ type = "toy", context = 512 }')
        cls.running.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.running.__exit__(None, None, None)

    def post(self, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.running.http_port}/v1/chat/completions", data=body,
                                         headers={"Content-Type": "application/json"})
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        with refused.exception as answer:
            return answer.code, json.loads(answer.read())["error"]

    def test_malformed_json(self):
        for body in (b"", b"{", b"[]", b"\xff\xfe", b'{"messages": 1}'):
            code, error = self.post(body)
            self.assertEqual((code, error["type"]), (400, "invalid_request_error"), body)
            self.assertTrue(error["message"])

    def test_prompt_longer_than_the_context(self):
        with self.running.client() as client:
            with self.assertRaises(openai.BadRequestError) as refused:
                client.chat.completions.create(model="toy", messages=[{"role": "user", "content": "x" * 600}])
            self.assertIn("512", str(refused.exception))
            self.assertIn("context", str(refused.exception))
            # What fits is served after that as before.
            answer = client.chat.completions.create(model="toy", messages=[{"role": "user", "content": "say:fine\n"}])
            self.assertEqual(answer.choices[0].message.content, "fine")

    def test_status_command(self):
        code, out, said = run("status", "--orchestrator", f"127.0.0.1:{self.running.control_port}", "--json")
        self.assertEqual(code, 0, said)
        self.assertEqual({node["name"] for node in json.loads(out)["nodes"]}, {"a", "b"})
        code, out, said = run("status", "--orchestrator", f"127.0.0.1:{self.running.control_port}")
        self.assertEqual(code, 0, said)
        self.assertIn("NODE", out)
        self.assertNotIn("\033", out)


if __name__ == "__main__":
    unittest.main()
