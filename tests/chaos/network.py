"""Machines in small: a network namespace for each member, joined by a bridge in the run's own. The cable of a member can be
pulled, and can be led through a relay that delays and loses what passes, each way by itself."""
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys

from sandbox import Holder
from support.processes import wait_until

HUB = "10.77.0.1"
DEVICE = "link0"
NOBODY = "02:00:00:00:00:01"  # no device has this address
RELAY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "relay.py")
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17  # linux/sockios.h, linux/ethtool.h


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def write_whole_checksums(device):
    """Has checksums computed and packets cut to size before they reach a device: a relay would pass on what is unfinished."""
    value = ctypes.create_string_buffer(struct.pack("II", ETHTOOL_STXCSUM, 0))
    request = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCETHTOOL, request)


class Network:
    """Use it as a context: leaving it ends the namespaces."""

    def __init__(self, members):
        self.numbers = {member: number for number, member in enumerate(members, 11)}
        self.holders = {}

    def __enter__(self):
        ip("link", "add", "hub0", "type", "bridge")
        ip("address", "add", f"{HUB}/24", "dev", "hub0")
        write_whole_checksums("hub0")
        ip("link", "set", "hub0", "up")
        for member in self.numbers:
            self._join(member)
        return self

    def _join(self, member):
        self.holders[member] = holder = Holder("--net")
        port, (outer, inner) = self.port(member), self.relay_ends(member)
        ip("link", "add", port, "type", "veth", "peer", "name", DEVICE)
        write_whole_checksums(DEVICE)
        ip("link", "set", DEVICE, "netns", str(holder.process.pid))
        ip("link", "set", port, "master", "hub0", "up")
        ip("link", "add", outer, "type", "veth", "peer", "name", inner)
        ip("link", "set", outer, "master", "hub0", "up")
        ip("link", "set", inner, "up")
        self.ip_within(member, "link", "set", "lo", "up")
        self.ip_within(member, "address", "add", f"{self.address(member)}/24", "dev", DEVICE)
        self.ip_within(member, "link", "set", DEVICE, "up")

    def ip_within(self, member, *arguments):
        subprocess.run(["nsenter", f"--net={self.holders[member].file('net')}", "ip", *arguments], check=True)

    def address(self, member):
        return f"10.77.0.{self.numbers[member]}"

    def port(self, member):
        """The end of a member's cable at the bridge."""
        return f"port{self.numbers[member]}"

    def relay_ends(self, member):
        """The cable of a relay: its end at the bridge, and the relay's."""
        return f"outer{self.numbers[member]}", f"inner{self.numbers[member]}"

    def enter(self, member):
        """What to put before a command so that it runs at a member, with a /sys that shows the devices of there."""
        if member not in self.holders:
            return []
        return ["nsenter", f"--net={self.holders[member].file('net')}", "unshare", "--mount", "--propagation", "private", "sh",
                "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh"]

    def pull(self, member):
        """Cuts both ways, and nobody is told."""
        ip("link", "set", self.port(member), "down")

    def plug(self, member):
        ip("link", "set", self.port(member), "up")

    @contextlib.contextmanager
    def parted(self, member, others):
        """Cuts both ways between a member and others, and nobody is told; all else of its cable is as before."""
        for one, other in self._ways(member, others):
            self.ip_within(one, "neighbour", "replace", self.address(other), "lladdr", NOBODY, "dev", DEVICE, "nud", "permanent")
        try:
            yield
        finally:
            for one, other in self._ways(member, others):
                self.ip_within(one, "neighbour", "delete", self.address(other), "dev", DEVICE)

    @contextlib.contextmanager
    def cut_from_hub(self, member):
        """Nothing of a member reaches those who are at no cable, and nobody is told."""
        self.ip_within(member, "neighbour", "replace", HUB, "lladdr", NOBODY, "dev", DEVICE, "nud", "permanent")
        try:
            yield
        finally:
            self.ip_within(member, "neighbour", "delete", HUB, "dev", DEVICE)

    @staticmethod
    def _ways(member, others):
        return [way for other in others for way in ((member, other), (other, member))]

    def frames_from(self, member):
        """How many frames the bridge's end of a member's cable has taken from it."""
        with open("/proc/net/dev", encoding="ascii") as file:
            return next(int(line.split()[2]) for line in file if line.strip().startswith(self.port(member) + ":"))

    def relay(self, member, seed, into=(0, 0), out_of=(0, 0), slow=()):
        """Leads a member's cable through a relay; `into` and `out_of` are (delay in ms, share lost) of what goes to the member
        and comes from it, `slow` is (another member, bytes per second each way between the two). To be ended by `unrelay`."""
        port, (_, inner) = self.port(member), self.relay_ends(member)
        figures = [str(figure) for figure in (seed, *into, *out_of)]
        if slow:
            figures += [self.address(slow[0]), str(slow[1])]
        relay = subprocess.Popen([sys.executable, "-B", RELAY, inner, port, *figures], stdout=subprocess.PIPE, text=True)
        if relay.stdout.readline() != "ready\n":
            raise OSError("the relay did not start")
        ip("link", "set", port, "nomaster")
        return relay

    def unrelay(self, member, relay, late=False):
        """What waits in the relay is lost, or comes late: behind what is sent from now on."""
        ip("link", "set", self.port(member), "master", "hub0")
        relay.terminate() if late else relay.kill()
        relay.wait()
        relay.stdout.close()

    def ports_left(self):
        """The cables whose other ends still lie in a namespace."""
        return [name for _, name in socket.if_nameindex() if name.startswith("port")]

    def end_members(self):
        for holder in self.holders.values():
            holder.close()

    def __exit__(self, *_):
        self.end_members()
        wait_until(lambda: not self.ports_left(), 10, "cables gone with the namespaces behind them")
        for member in self.numbers:
            ip("link", "delete", self.relay_ends(member)[0])
        ip("link", "delete", "hub0")
