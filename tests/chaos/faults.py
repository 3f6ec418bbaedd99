"""The faults, and plans of them. Each one begins, lasts, and is over when its function returns."""
import contextlib
import dataclasses
import os
import random
import time

import sandbox
from cluster import NODES

BALLAST = "ballast"


@dataclasses.dataclass(frozen=True)
class Fault:
    """One entry of a plan. `rank` chooses the victim among the nodes: 0 is the one that serves most clients at that time."""
    kind: str
    rank: int
    seconds: float
    seed: int

    def __str__(self):
        return f"{self.kind} for {self.seconds:.2f} s"


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of fault: what it does, to whom, for how long, and what it needs."""
    disturb: object  # (cluster, victim, fault)
    victim: str = "node"  # or the name of a process
    seconds: tuple = (0.1, 1.5)
    needs: str = ""  # "network", "mounts", "clocks"


def kill(cluster, victim, fault):
    cluster.kill(victim)
    time.sleep(fault.seconds)
    cluster.start(victim)


def hand_over(cluster, victim, fault):
    """A planned end: what the node serves moves first."""
    cluster.end(victim)
    time.sleep(fault.seconds)
    cluster.start(victim)


def freeze(cluster, victim, fault):
    with cluster.frozen(victim):
        time.sleep(fault.seconds)


def restart_with_another_clock(cluster, victim, fault):
    cluster.kill(victim)
    offset_s = str(random.Random(fault.seed).randrange(60, 10_000_000))
    with sandbox.Holder("--time", "--monotonic", offset_s, "--boottime", offset_s) as clock:
        cluster.start(victim, ["nsenter", f"--time={clock.file('time_for_children')}"])


def cut(cluster, victim, fault):
    cluster.net.pull(victim)
    try:
        time.sleep(fault.seconds)
    finally:
        cluster.net.plug(victim)


def disturb_cable(cluster, victim, fault, into, out_of):
    relay = cluster.net.relay(victim, fault.seed, into, out_of)
    try:
        time.sleep(fault.seconds)
    finally:
        cluster.net.unrelay(victim, relay)


def cut_into(cluster, victim, fault):
    disturb_cable(cluster, victim, fault, (0, 1), (0, 0))


def cut_out_of(cluster, victim, fault):
    disturb_cable(cluster, victim, fault, (0, 0), (0, 1))


def delay(cluster, victim, fault):
    delay_ms = random.Random(fault.seed).randrange(5, 200)
    disturb_cable(cluster, victim, fault, (delay_ms, 0), (delay_ms, 0))


def lose_packets(cluster, victim, fault):
    share = random.Random(fault.seed).uniform(0.01, 0.3)
    disturb_cable(cluster, victim, fault, (0, share), (0, share))


@contextlib.contextmanager
def full_disk(folder):
    """No byte is free where the orchestrator's store lies."""
    name = os.path.join(folder, BALLAST)
    try:
        with open(name, "wb", buffering=0) as ballast:
            for block in (1 << 16, 1):
                with contextlib.suppress(OSError):
                    while True:
                        ballast.write(bytes(block))
        yield
    finally:
        os.unlink(name)


def fill_disk(cluster, _, fault):
    with full_disk(cluster.store):
        time.sleep(fault.seconds)


def kill_while_disk_is_full(cluster, victim, fault):
    """The take-over cannot be written before the disk has room again."""
    with full_disk(cluster.store):
        cluster.kill(victim)
        time.sleep(fault.seconds)
    cluster.start(victim)


KINDS = {
    "kill node": Kind(kill),
    "freeze node": Kind(freeze, seconds=(0.05, 3)),
    "hand over": Kind(hand_over),
    "kill orchestrator": Kind(kill, victim="control"),
    "freeze orchestrator": Kind(freeze, victim="control", seconds=(0.05, 3)),
    "cut": Kind(cut, seconds=(0.05, 3), needs="network"),
    "cut into": Kind(cut_into, seconds=(0.05, 3), needs="network"),
    "cut out of": Kind(cut_out_of, seconds=(0.05, 3), needs="network"),
    "cut orchestrator": Kind(cut, victim="control", seconds=(0.05, 8), needs="network"),
    "deafen orchestrator": Kind(cut_into, victim="control", seconds=(0.05, 8), needs="network"),
    "delay": Kind(delay, seconds=(0.5, 3), needs="network"),
    "loss": Kind(lose_packets, seconds=(0.5, 3), needs="network"),
    "disk full": Kind(fill_disk, victim="control", seconds=(0.2, 1.5), needs="mounts"),
    "disk full, kill node": Kind(kill_while_disk_is_full, seconds=(0.2, 1.5), needs="mounts"),
    "other clock": Kind(restart_with_another_clock, needs="clocks"),
}


def possible_kinds(abilities):
    """The kinds for which all is there that they need."""
    return [name for name, kind in KINDS.items() if not kind.needs or kind.needs in abilities]


def make_plan(seed, count, kinds):
    """Faults drawn from a seed: every kind in turn, each round in another order."""
    dice, plan = random.Random(seed), []
    while len(plan) < count:
        for name in dice.sample(kinds, len(kinds)):
            plan.append(Fault(name, dice.choice((0, 0, 1, 2)), round(dice.uniform(*KINDS[name].seconds), 3),
                              dice.randrange(1 << 30)))
    return plan[:count]


def victim_of(fault, serving):
    """The process that a fault hits, given the nodes that serve the clients' streams now."""
    wanted = KINDS[fault.kind].victim
    if wanted != "node":
        return wanted
    return sorted(NODES, key=lambda node: (-serving.count(node), node))[fault.rank]


def inflict(cluster, victim, fault):
    KINDS[fault.kind].disturb(cluster, victim, fault)
