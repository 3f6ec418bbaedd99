"""Starts deployments of the built program and checks that they leave nothing behind.

The program is $BATON_BINARY, which ctest sets, or that of the release build. By hand, from this folder:

    python -m unittest -v test_failover.Failover.test_kill_of_the_primary
"""
import atexit
import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from support.answers import Answer, ask  # noqa: E402, F401 (tests have them from here)
from support.deployments import deployment_text, llama  # noqa: E402, F401
from support.processes import free_port, is_alive, listens, wait_until  # noqa: E402

BINARY = os.path.abspath(os.environ.get("BATON_BINARY") or os.path.join(HERE, "../../build/release/apps/baton"))
START_TIMEOUT_S = 30
# A busy machine makes nobody look dead.
PATIENT = "suspect_ms = 1000\nlease_ms = 3000"
ANSWER_TIMEOUT_S = 30


class SharedMemory:
    """A /dev/shm that only the programs of these tests use, so that what is left there was left by them. Without the right
    to mount one (see `command`) it is the one of the machine, where other programs come and go."""

    def __init__(self):
        self.holder = None
        if os.geteuid() == 0 and shutil.which("unshare") and shutil.which("nsenter"):
            self.holder = subprocess.Popen(
                ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                 "mount -t tmpfs tmpfs /dev/shm && echo ready && exec sleep 100000"], stdout=subprocess.PIPE, text=True)
            ready = self.holder.stdout.readline() == "ready\n"
            self.holder.stdout.close()
            atexit.register(self.close)
            if not ready:
                self.close()
        self.folder = f"/proc/{self.holder.pid}/root/dev/shm" if self.holder else "/dev/shm"

    def close(self):
        if self.holder:
            self.holder.kill()
            self.holder.wait()
        self.holder = None

    def command(self, arguments):
        """What to run instead of `arguments` so that it uses this /dev/shm."""
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", *arguments] if self.holder else list(arguments)

    def files(self):
        return set(os.listdir(self.folder))

    def left(self, before):
        """What is new there and stays."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not self.files() - before, 3, "nothing left in /dev/shm")
        return self.files() - before


SHARED_MEMORY = SharedMemory()


class Deployment:
    """A running deployment, with the supervisor's view of it. Use it as a context; leaving it checks that all is gone."""

    def __init__(self, nodes=("a", "b", "c"), links=True, text=None, ports=None, **how):
        self.nodes = nodes
        self.links = len(nodes) * (len(nodes) - 1) if links else 0
        self.control_port, self.http_port = ports or (free_port(), free_port())
        self.text = text or deployment_text(self.control_port, self.http_port, nodes, links=links, **how)
        self.pids, self.restarted = {}, []
        self.events = queue.Queue()
        self.before = SHARED_MEMORY.files()

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="baton-e2e-")
        self.file = os.path.join(self.folder.name, "deployment.toml")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(self.text)
        self.log = open(os.path.join(self.folder.name, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(SHARED_MEMORY.command([BINARY, "run", self.file, "--json"]),
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        try:
            self._await_up()
            wait_until(self.healthy, START_TIMEOUT_S, "all nodes and links up")
        except BaseException:
            self._explain()
            self._close()
            raise
        return self

    def _read(self):
        for line in self.process.stdout:
            self.events.put(json.loads(line))
        self.events.put({"event": "end of output"})

    def _await_up(self):
        while True:
            event = self.events.get(timeout=START_TIMEOUT_S)
            if event["event"] == "ready":
                self.pids[event["process"]] = event["pid"]
            elif event["event"] == "up":
                return
            else:
                raise AssertionError(f"the deployment did not start: {event}")

    def _explain(self):
        print("\n".join(self.logged().splitlines()[-60:]))

    def logged(self):
        """What all processes have logged so far."""
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=ANSWER_TIMEOUT_S) as answer:
            return answer.read()

    def status(self):
        return json.loads(self.get("/baton/status")).get("cluster") or {}

    def healthy(self):
        try:
            self.get("/health")
            cluster = self.status()
        except (urllib.error.URLError, OSError):
            return False
        alive = [node for node in cluster.get("nodes", ()) if node["alive"]]
        up = [link for link in cluster.get("links", ()) if link["up"]]
        return len(alive) == len(self.nodes) and len(up) == self.links

    def start_again(self, process):
        """A process of the deployment that has ended, started by itself; waits until all is healthy. It ends before the rest."""
        started = subprocess.Popen([BINARY, "run", self.file, "--process", process], stdout=subprocess.DEVNULL, stderr=self.log)
        self.restarted.append(started)
        self.pids[process] = started.pid
        wait_until(self.healthy, START_TIMEOUT_S, f"{process} back with all its links")

    def _end_restarted(self):
        for process in self.restarted:
            process.terminate()
        for process in self.restarted:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._explain()
                raise

    def signal(self, process, number):
        os.kill(self.pids[process], number)

    def client(self):
        import openai
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.http_port}/v1", api_key="none", max_retries=0,
                             timeout=ANSWER_TIMEOUT_S)

    def stop(self):
        """SIGTERM to the supervisor; its exit code and the seconds it took."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=10)
        return code, time.monotonic() - begun

    def __exit__(self, kind, value, trace):
        try:
            self._end_restarted()
            if self.process.poll() is None:
                self.stop()
            if kind is not None:
                self._explain()
                return
            wait_until(lambda: not any(map(is_alive, self.pids.values())), 5, f"none of {self.pids} alive")
            for port in (self.control_port, self.http_port):
                wait_until(lambda: not listens(port), 5, f"port {port} free")  # threads may outlive the one that has ended
            left = SHARED_MEMORY.left(self.before)
            assert not left, f"left in /dev/shm: {left}"
        finally:
            self._close()

    def _close(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.log.close()
        self.folder.cleanup()


def stream(deployment, messages, session=None, seen=None, **how):
    """Streams one chat answer; `seen(answer)` is called after each chunk."""
    with deployment.client() as client:
        return ask(client, messages, session, seen, **how)


def run(*arguments, timeout_s=60, **how):
    """The program's exit code, standard output and standard error."""
    ended = subprocess.run(SHARED_MEMORY.command([BINARY, *arguments]), capture_output=True, text=True, timeout=timeout_s,
                           check=False, **how)
    return ended.returncode, ended.stdout, ended.stderr


class Case(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        self.assertTrue(os.access(BINARY, os.X_OK), f"there is no program {BINARY}; set BATON_BINARY")

    @contextlib.contextmanager
    def within(self, seconds, what):
        begun = time.monotonic()
        yield
        self.assertLess(time.monotonic() - begun, seconds, what)
