"""Real chaos: a deployment of real processes, clients that talk to it all the time, and one fault after the other.

    python chaos.py [--faults 20] [--seed N] [--kinds "kill node,cut"] [--json]

The program is $BATON_BINARY, or that of the release build; CHAOS_SEED is another way to give the seed. The exit code is 1 if
any client saw anything of the faults but a pause, if the cluster did not become whole again, or if something was left behind.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import random
import shlex
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import sandbox  # noqa: E402
from clients import MANNERS, Client  # noqa: E402
from cluster import BINARY, Cluster  # noqa: E402
from faults import KINDS, inflict, make_plan, possible_kinds, victim_of  # noqa: E402
from network import Network  # noqa: E402
from report import Happened, outcome, summary  # noqa: E402
from support.processes import wait_until  # noqa: E402

# From the end of a fault until the cluster is whole and each client has heard a word. The longest way back, a node started
# anew under load, takes two to three seconds; ten times that is not slowness but something that does not end.
HEALTHY_TIMEOUT_S = 30
END_TIMEOUT_S = 60
QUIET_S = 1.0
VIOLATIONS_SHOWN = 20
# For a pause that is still on when the cluster is whole: it is known only when it has ended.
PROGRESS_TIMEOUT_S = 30


class Run:
    """One run of a plan. Violations are words; the first one brings the ends of all logs with it."""

    def __init__(self, seed, plan, left_out, say, logs=None):
        self.seed, self.plan, self.left_out, self.say, self.logs = seed, plan, left_out, say, logs
        self.events, self.clients, self.violations, self.leftovers = [], [], [], []
        self.diverged, self.quiet_gap_s, self.seconds = 0, 0.0, 0.0
        self.now = "before the first fault"
        self.cluster = None
        self.begun = time.monotonic()

    def run(self):
        with contextlib.ExitStack() as parts:
            net = parts.enter_context(Network(("control", "a", "b", "c"))) if sandbox.is_inside() else None
            self.cluster = parts.enter_context(Cluster(net, self.logs))
            try:
                self._disturb()
            except AssertionError as failure:
                self._violate(str(failure))
            self._finish()
        self.seconds = time.monotonic() - self.begun

    def _disturb(self):
        """The plan, while clients talk; up to the first fault that the cluster does not come back from."""
        self.clients = [Client(self.cluster, manner, self.note) for manner in MANNERS]
        with concurrent.futures.ThreadPoolExecutor(len(self.clients)) as learning:
            list(learning.map(Client.learn, self.clients))
        for client in self.clients:
            client.start()
        self._watch_quiet()
        for number, fault in enumerate(self.plan, 1):
            self._step(number, fault)

    def note(self, violation):
        """A violation that a client has seen."""
        self._violate(f"{violation.kind}: {violation.client}, {violation.what}")

    def _violate(self, what):
        self.violations.append(f"{self.now}: {what}")
        if len(self.violations) <= VIOLATIONS_SHOWN:
            self.say(f"  VIOLATION  {self.violations[-1]}")
        if len(self.violations) == 1:
            self.say(self.cluster.log_tails())

    def _watch_quiet(self):
        begin = time.monotonic()
        time.sleep(QUIET_S)
        self.quiet_gap_s = self._longest_pause(begin, time.monotonic())

    def _longest_pause(self, begin, end):
        return max(client.longest_pause(begin, end) for client in self.clients)

    def _step(self, number, fault):
        """One fault and the way back."""
        victim = victim_of(fault, [client.serving for client in self.clients])
        self.now = f"fault {number}, {fault}, {victim}"
        begin = time.monotonic()
        inflict(self.cluster, victim, fault)
        over = time.monotonic()
        self.cluster.await_healthy(HEALTHY_TIMEOUT_S)
        whole = time.monotonic()
        self._await_progress(whole)
        event = Happened(number, fault.kind, victim, fault.seconds, whole - over, self._longest_pause(begin, whole))
        self.events.append(event)
        self.say(str(event))
        for client in self.clients:
            client.forget_pauses(whole)

    def _await_progress(self, since):
        for client in self.clients:
            wait_until(lambda heard=client: heard.last_word > since, PROGRESS_TIMEOUT_S, f"a word for {client.name}")

    def _finish(self):
        self.now = "at the end"
        for client in self.clients:
            client.stopping.set()
        for client in filter(Client.is_alive, self.clients):
            client.join(END_TIMEOUT_S)
            if client.is_alive():
                self._violate(f"{client.name} is stuck")
        try:
            self.diverged = self.cluster.diverged()
        except OSError as failure:
            self._violate(f"no metrics: {failure}")
        if self.diverged:
            self._violate(f"{self.diverged} tokens contradicted what a client had been given")
        for problem in self.cluster.stop():
            self._violate(problem)
        self.leftovers = self.cluster.leftovers()
        if self.leftovers:
            self._violate(f"left behind: {', '.join(self.leftovers)}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(1 << 30)))
    parser.add_argument("--kinds", default="", help=f"those only, of: {', '.join(KINDS)}")
    parser.add_argument("--logs", help="an empty folder for the logs of all processes, which are kept there")
    parser.add_argument("--json", action="store_true", help="print one object instead of the tables")
    return parser.parse_args()


def find_abilities():
    """What this machine and the rights of this program allow."""
    return {*(("network", "mounts") if sandbox.is_inside() else ()), *(("clocks",) if sandbox.can_shift_clocks() else ())}


def command_to_repeat(how):
    kinds = f" --kinds {shlex.quote(how.kinds)}" if how.kinds else ""
    return f"BATON_BINARY={shlex.quote(BINARY)} {sys.executable} {__file__} --faults {how.faults} --seed {how.seed}{kinds}"


def main():
    how = parse_arguments()
    sandbox.enter(("--seed", str(how.seed)))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    if not os.access(BINARY, os.X_OK):
        sys.exit(f"there is no program {BINARY}; set BATON_BINARY")
    wanted = [kind.strip() for kind in how.kinds.split(",")] if how.kinds else list(KINDS)
    kinds = [kind for kind in possible_kinds(find_abilities()) if kind in wanted]
    if set(wanted) - set(KINDS) or not kinds:
        sys.exit(f"no such kinds of faults, or none that is possible here: {how.kinds}")

    def say(words):
        print(words, file=sys.stderr if how.json else sys.stdout, flush=True)

    say(f"chaos: {how.faults} faults, seed {how.seed}")
    run = Run(how.seed, make_plan(how.seed, how.faults, kinds), sorted(set(wanted) - set(kinds)), say, how.logs)
    try:
        run.run()
    except AssertionError as failure:
        run.violations.append(str(failure))
        say(f"  VIOLATION  {failure}")
    figures = outcome(run)
    print(json.dumps(figures) if how.json else summary(figures), flush=True)
    if run.violations:
        say(f"\nto repeat it: {command_to_repeat(how)}")
    return 1 if run.violations else 0


if __name__ == "__main__":
    sys.exit(main())
