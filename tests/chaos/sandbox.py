"""A world of the run's own: its network, its mounts with /dev/shm, its process ids. All of it ends with the run, and what is
in it at the end was left by the run."""
import contextlib
import os
import shutil
import subprocess
import sys

from support.processes import is_alive

MARK = "BATON_CHAOS_SANDBOX"


def command():
    """What makes the world, or None where the kernel or the rights do not allow it."""
    wanted = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net", "--mount", "--propagation", "private",
              "--pid", "--fork", "--kill-child", "--mount-proc"]
    if not all(map(shutil.which, ("unshare", "nsenter", "ip", "mount"))):
        return None
    probe = [*wanted, "sh", "-c", "mount -t tmpfs tmpfs /dev/shm && ip link set lo up"]
    return wanted if subprocess.run(probe, capture_output=True, check=False).returncode == 0 else None


def enter(more):
    """Runs this program again within such a world, with `more` arguments, and does not return; unless it is there already or
    cannot be."""
    if is_inside():
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    wanted = command()
    if wanted:
        os.environ[MARK] = "1"
        os.execvp(wanted[0], [*wanted, sys.executable, "-B", *sys.argv, *more])


def is_inside():
    return os.environ.get(MARK) == "1"


def can_shift_clocks():
    """Whether a process can be given a monotonic clock of its own."""
    return is_inside() and subprocess.run(["unshare", "--time", "--monotonic", "1", "true"], capture_output=True,
                                          check=False).returncode == 0


class Holder:
    """A process that does nothing but hold new namespaces, for others to enter. Use it as a context, or close it."""

    def __init__(self, *kinds):
        self.process = subprocess.Popen(["unshare", *kinds, "sh", "-c", "echo ready && exec sleep 100000"],
                                        stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline()
        self.process.stdout.close()
        if ready != "ready\n":
            self.close()
            raise OSError(f"unshare {' '.join(kinds)} has failed")

    def file(self, namespace):
        return f"/proc/{self.process.pid}/ns/{namespace}"

    def close(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def processes_left():
    """The processes in here besides this program: (id, command)."""
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        if pid != os.getpid() and is_alive(pid):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                yield pid, file.read().replace("\0", " ").strip()
