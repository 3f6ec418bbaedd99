"""A deployment of real processes, each started by itself as on machines of their own, that can be lost and come back."""
import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import openai

import network
import sandbox
from support.deployments import deployment_text
from support.processes import free_port, is_alive, listens, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
BINARY = os.path.abspath(os.environ.get("BATON_BINARY") or os.path.join(HERE, "../../build/release/apps/baton"))

NODES = ("a", "b", "c")
PROCESSES = ("control", "edge", *NODES)
ENGINE = '{ type = "toy", sessions = 24, decode_us = 3000 }'
# Longer than the default: a machine that builds something meanwhile should not add faults of its own to the plan.
SUSPECT_S = 0.5
# A turn that nobody serves ends with an error after three leases: longer than any single fault lasts.
DEFAULTS = f"suspect_ms = {SUSPECT_S * 1000:.0f}\nlease_ms = 2000"

START_TIMEOUT_S = 30
STATUS_TIMEOUT_S = 5
END_TIMEOUT_S = 10
LEAVING_TIMEOUT_S = 5
# A stream that says nothing for this long is stuck: several times what the longest fault and the way back from it take.
ANSWER_TIMEOUT_S = 30
# How long everything must look well before it counts: longer than it takes to suspect somebody.
STABLE_S = 1.2 * SUSPECT_S
POLL_S = 0.05
STORE_BYTES = 4 << 20
TAIL_LINES = 40


class Cluster:
    """Use it as a context: leaving it ends all processes, and `leftovers` tells what is left after `stop`. Logs go to a folder,
    and stay there, if one is given. `port` is that of each node's control plane, the next one that of its data plane; 0 is any."""

    def __init__(self, net=None, logs=None, defaults=DEFAULTS, engine=ENGINE, links=True, device=network.DEVICE, port=0,
                 transport="ucx"):
        self.net, self.logs, self.links = net, logs, links
        self.defaults, self.engine, self.transport, self.device, self.port = defaults, engine, transport, device, port
        self.running, self.pids, self.lost = {}, {}, {}
        self.host = network.HUB if net else "127.0.0.1"
        self.control_host = net.address("control") if net else "127.0.0.1"
        self.control_port, self.http_port = free_port(), free_port()
        self.shared_memory = set(os.listdir("/dev/shm"))

    # --- starting and ending

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="baton-chaos-")
        self.folder = self.temporary.name
        self.file, self.store = os.path.join(self.folder, "deployment.toml"), os.path.join(self.folder, "store")
        os.mkdir(self.store)
        try:
            if sandbox.is_inside():
                subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={STORE_BYTES}", "tmpfs", self.store], check=True)
            with open(self.file, "w", encoding="utf-8") as file:
                file.write(self._text())
            for process in PROCESSES:
                self.start(process)
            self.await_healthy(START_TIMEOUT_S)
        except BaseException:
            print(self.log_tails())
            self._end_all()
            self._clean_up()
            raise
        return self

    def _text(self):
        more = {}
        if self.net:
            more = {node: self._network_of(node) for node in NODES}
        return deployment_text(f"{self.control_host}:{self.control_port}", f"{self.host}:{self.http_port}", NODES, self.engine,
                               self.links, self.defaults, store=os.path.join(self.store, "state.db"), more=more,
                               transport=self.transport)

    def _network_of(self, node):
        """Its addresses; without a device, UCX has to find the one that these are of."""
        data_port = self.port and self.port + 1
        lines = f'control_listen = "{self.net.address(node)}:{self.port}"\ndata_listen = "{self.net.address(node)}:{data_port}"\n'
        return lines + (f'network_devices = "{self.device}"' if self.device else "")

    def start(self, process, enter=()):
        """Starts a process and waits until it says that it is ready; `enter` goes before its command."""
        within = self.net.enter(process) if self.net else []
        with open(self.log_file(process), "a", encoding="utf-8") as log:
            started = subprocess.Popen([*within, *enter, BINARY, "run", self.file, "--process", process, "--json",
                                        "--log-level", self.log_level],
                                       stdout=subprocess.PIPE, stderr=log, text=True)
        self.running[process] = started
        self.pids.setdefault(process, []).append(started.pid)
        self._await_ready(process, started)

    def _await_ready(self, process, started):
        said = queue.Queue()
        threading.Thread(target=lambda: said.put(started.stdout.readline()), daemon=True).start()
        with contextlib.suppress(queue.Empty, ValueError):
            if json.loads(said.get(timeout=START_TIMEOUT_S))["event"] == "ready":
                return
        raise AssertionError(f"{process} did not start: {self.log_tail(process)}")

    def _end_all(self):
        """SIGTERM to all; the exit code of each."""
        for started in self.running.values():
            started.send_signal(signal.SIGCONT)
            started.terminate()
        codes = {}
        for process, started in self.running.items():
            with contextlib.suppress(subprocess.TimeoutExpired):
                started.wait(timeout=END_TIMEOUT_S)
            codes[process] = started.poll()
            started.kill()
            started.wait()
            started.stdout.close()
        return codes

    def stop(self):
        """Ends all processes as an operator would, and tells what was wrong with that."""
        return [f"{process} ended with {'nothing within ' + str(END_TIMEOUT_S) + ' s' if code is None else code}"
                for process, code in self._end_all().items() if code != 0]

    def _clean_up(self):
        if os.path.ismount(self.store):
            subprocess.run(["umount", self.store], check=False)
        self.temporary.cleanup()

    def __exit__(self, *_):
        self._end_all()
        self._clean_up()

    # --- losing and watching

    def signal(self, process, number):
        self.running[process].send_signal(number)

    @contextlib.contextmanager
    def frozen(self, process):
        self.signal(process, signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(process, signal.SIGCONT)

    def kill(self, process):
        """SIGKILL; `healthy` asks for another incarnation from now on."""
        self.lost[process] = self._life_of(process, self.status())
        self.running[process].kill()
        self.running[process].wait()
        self.running[process].stdout.close()

    def end(self, process):
        """SIGTERM, and its end with 0; `healthy` asks for another incarnation from now on."""
        self.lost[process] = self._life_of(process, self.status())
        self.running[process].terminate()
        code = self.running[process].wait(timeout=END_TIMEOUT_S)
        self.running[process].stdout.close()
        if code != 0:
            raise AssertionError(f"{process} ended with {code} after SIGTERM")

    @staticmethod
    def _life_of(process, status):
        """What tells one life of a process from its next."""
        if process == "control":
            return status.get("term")
        return next((node["incarnation"] for node in status.get("nodes", ()) if node["name"] == process), None)

    def get(self, path):
        with urllib.request.urlopen(f"http://{self.host}:{self.http_port}{path}", timeout=STATUS_TIMEOUT_S) as answer:
            return answer.read().decode()

    def status(self):
        """What the orchestrator itself says: a gateway tells what it last heard from it."""
        asked = subprocess.run([BINARY, "status", "--orchestrator", f"{self.control_host}:{self.control_port}", "--json",
                                "--timeout-ms", str(STATUS_TIMEOUT_S * 1000)], capture_output=True, check=False)
        return json.loads(asked.stdout) if asked.returncode == 0 else {}

    def metric(self, name):
        """A counter of the gateway."""
        lines = [line.split() for line in self.get("/metrics").splitlines()]
        return sum(int(float(line[1])) for line in lines if line and line[0].startswith(name))

    def diverged(self):
        """How often an owner contradicted what a client had been given."""
        return self.metric("baton_gateway_tokens_diverged_total")

    def missing(self):
        """What is not as it should be, in words; empty if the cluster is whole: all nodes alive, in the life they were last
        started in, all links up, each group owned by a live node and with all others in its in-sync set."""
        try:
            self.get("/health")
        except (urllib.error.URLError, OSError) as failure:
            return f"the gateway cannot take a turn: {failure}"
        status = self.status()
        alive = {node["name"] for node in status.get("nodes", ()) if node["alive"]}
        links = sum(link["up"] for link in status.get("links", ()))
        if alive != set(NODES) or links != len(NODES) * (len(NODES) - 1) * self.links:
            return f"alive are {sorted(alive)}, with {links} links"
        for process, life in self.lost.items():
            if self._life_of(process, status) == life:
                return f"{process} is known by its former life only"
        for group in status["groups"]:
            if set(group["in_sync"]) | {group["owner"]} != (alive if self.links else {group["owner"] or "nobody"}):
                return f"group {group['group']} of {group['owner'] or 'nobody'} has in sync only {group['in_sync']}"
        return ""

    def await_healthy(self, timeout_s):
        """Waits until nothing is missing, and stays so; AssertionError with what is missing past the deadline."""
        deadline, since, missing = time.monotonic() + timeout_s, None, ""
        while since is None or time.monotonic() < since + STABLE_S:
            missing = self.missing()
            since = None if missing else since or time.monotonic()
            if time.monotonic() > deadline:
                raise AssertionError(f"not healthy within {timeout_s} s: {missing or 'it does not last'}; "
                                     f"status {json.dumps(self.status())}")
            time.sleep(POLL_S)

    def client(self):
        return openai.OpenAI(base_url=f"http://{self.host}:{self.http_port}/v1", api_key="none", max_retries=0,
                             timeout=ANSWER_TIMEOUT_S)

    # --- what is left

    @property
    def log_level(self):
        """Where logs are kept they say more, for whoever looks for a cause."""
        return "debug" if self.logs else "info"

    def log_file(self, process):
        return os.path.join(self.logs or self.folder, f"{process}.log")

    def log_tail(self, process):
        with open(self.log_file(process), encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-TAIL_LINES:])

    def log_tails(self):
        return "\n".join(f"--- the log of {process} ends:\n{self.log_tail(process)}" for process in self.pids)

    def leftovers(self):
        """What is left a while after `stop`, in words: processes, ports, shared memory, namespaces. Helpers outlive the process
        they tidy up after, and the kernel takes namespaces apart after the last process in them."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not self._ports_left(), LEAVING_TIMEOUT_S, "no port left")
        ports = self._ports_left()
        if self.net:
            self.net.end_members()
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not self._left(), LEAVING_TIMEOUT_S, "nothing left")
        return ports + self._left()

    def _ports_left(self):
        return [f"port {port}" for host, port in ((self.control_host, self.control_port), (self.host, self.http_port))
                if listens(port, host)]

    def _left(self):
        left = [f"process {pid} of {process}" for process, pids in self.pids.items() for pid in pids if is_alive(pid)]
        if sandbox.is_inside():
            left += [f"process {pid}: {words}" for pid, words in sandbox.processes_left()]
        left += [f"/dev/shm/{name}" for name in set(os.listdir("/dev/shm")) - self.shared_memory]
        return left + [f"the namespace behind {port}" for port in (self.net.ports_left() if self.net else ())]
