"""Processes and ports of this machine, and waiting for them."""
import os
import random
import socket
import time


def free_port(host="127.0.0.1"):
    """A port that nobody listens on, outside of the range that outgoing connections are given."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
                return port
            except OSError:
                continue


def is_alive(pid):
    """Whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def listens(port, host="127.0.0.1"):
    """Whether a connection to a port is taken."""
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def wait_until(condition, timeout_s, what):
    """Polls a condition; past the deadline it is an AssertionError."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError(f"{what} within {timeout_s} s")
