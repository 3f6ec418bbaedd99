"""A real etcd cluster on loopback, and a door in front of it that can be slow or shut."""
import base64
import json
import os
import selectors
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

from .processes import free_port, wait_until

PROGRAM = os.environ.get("BATON_ETCD", "")


def encoded(text):
    return base64.b64encode(text.encode()).decode()


class Etcd:
    """So many members, each a process; use it as a context."""

    def __init__(self, members=3):
        self.names = [f"m{i}" for i in range(members)]
        self.clients = {name: f"http://127.0.0.1:{free_port()}" for name in self.names}
        self.peers = {name: f"http://127.0.0.1:{free_port()}" for name in self.names}

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="baton-etcd-")
        self.processes = {name: self._start(name) for name in self.names}
        try:
            wait_until(lambda: self.leader() is not None, 20, "etcd has a leader")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, name):
        everybody = ",".join(f"{one}={url}" for one, url in self.peers.items())
        with open(os.path.join(self.folder, f"{name}.log"), "w", encoding="utf-8") as log:
            return subprocess.Popen(
                [PROGRAM, "--name", name, "--data-dir", os.path.join(self.folder, name), "--logger=zap", "--log-level=error",
                 "--listen-client-urls", self.clients[name], "--advertise-client-urls", self.clients[name],
                 "--listen-peer-urls", self.peers[name], "--initial-advertise-peer-urls", self.peers[name],
                 "--initial-cluster", everybody], stdout=log, stderr=log)

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def store(self):
        """As a deployment says it."""
        return "etcd:" + ",".join(self.clients.values())

    def ask(self, name, path, body):
        request = urllib.request.Request(self.clients[name] + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=2) as answer:
            return json.load(answer)

    def leader(self):
        """The name of the member that leads, as far as one can be asked."""
        for name in self.names:
            try:
                status = self.ask(name, "/v3/maintenance/status", {})
            except (urllib.error.URLError, OSError):
                continue
            if status.get("leader") == status["header"]["member_id"]:
                return name
        return None

    def signal(self, name, number):
        self.processes[name].send_signal(number)

    def busy(self, keys):
        """So many keys of others change, and what was before is forgotten."""
        for i in range(keys):
            last = self.ask(self.names[0], "/v3/kv/put", {"key": encoded(f"/others/{i % 100}"), "value": encoded(str(i))})
        self.ask(self.names[0], "/v3/kv/compaction", {"revision": last["header"]["revision"], "physical": True})


class Door:
    """A port in front of another one. `delay`: seconds that each answer waits; `shut`: nobody comes through, and who was within
    is thrown out."""

    def __init__(self, target):
        self.target = target
        self.delay = 0.0
        self.is_shut = False
        self.port = free_port()
        self.pairs = {}  # socket: (the other one, whether what comes from it are answers)
        self.waiting = []  # (when, socket, bytes), by time
        self.selector = selectors.DefaultSelector()
        self.ended = threading.Event()

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        for one in (*self.pairs, self.listener):
            one.close()
        self.selector.close()

    def _run(self):
        while not self.ended.is_set():
            for key, _ in self.selector.select(0.005):
                if key.fileobj is self.listener:
                    self._take()
                elif key.fileobj in self.pairs:
                    self._pass_on(key.fileobj)
            if self.is_shut:
                for one in list(self.pairs):
                    self._close(one)
            while self.waiting and self.waiting[0][0] <= time.monotonic():
                _, to, data = self.waiting.pop(0)
                self._send(to, data)

    def _take(self):
        client, _ = self.listener.accept()
        if self.is_shut:
            client.close()
            return
        server = socket.create_connection(("127.0.0.1", self.target))
        self.pairs[client], self.pairs[server] = (server, False), (client, True)
        for one in (client, server):
            self.selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, one):
        to, answers = self.pairs[one]
        try:
            data = one.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._close(one)
        elif answers and self.delay:
            self.waiting.append((time.monotonic() + self.delay, to, data))
        else:
            self._send(to, data)

    def _send(self, to, data):
        try:
            to.sendall(data)
        except OSError:
            self._close(to)

    def _close(self, one):
        for end in (one, self.pairs.get(one, (None,))[0]):
            if self.pairs.pop(end, None):
                self.selector.unregister(end)
                end.close()
