"""That chaos catches what it is for: faults of the product, planted; and that its tools do what they say.

    python test_planted.py
"""
import os
import socket
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import sandbox  # noqa: E402
from chaos import Run  # noqa: E402
from clients import flaws  # noqa: E402
from cluster import NODES  # noqa: E402
from faults import KINDS, Fault, Kind, make_plan, possible_kinds  # noqa: E402
from network import Network  # noqa: E402
from support.answers import Answer  # noqa: E402
from support.processes import wait_until  # noqa: E402

ECHO = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo:
    echo.bind((sys.argv[1], 7))
    print("ready", flush=True)
    while True:
        echo.sendto(*echo.recvfrom(100))
"""


def make_answer(**changes):
    answer = Answer()
    answer.text, answer.finish, answer.usage, answer.end = "abcd", "length", (10, 4), {"failovers": 1}
    answer.positions, answer.lengths = [10, 12, 13], [1, 2, 1]
    for name, value in changes.items():
        setattr(answer, name, value)
    return answer


class Checks(unittest.TestCase):
    def test_pieces_of_any_size_are_right(self):
        self.assertEqual(flaws(make_answer(), make_answer()), [])
        self.assertEqual(flaws(make_answer(), make_answer(positions=[13], lengths=[4])), [])

    def test_each_flaw_is_seen(self):
        for planted in ({"text": "abce"}, {"finish": None}, {"usage": (10, 3)}, {"logprobs": [("a", -1.0, [])]},
                        {"end": None}, {"usage": None},
                        {"positions": [10, 12, 12], "lengths": [1, 2, 1]},  # one twice
                        {"positions": [10, 13], "lengths": [1, 2]},  # one never
                        {"positions": [10, 12], "lengths": [1, 2]}):  # not the last
            with self.subTest(planted):
                self.assertNotEqual(flaws(make_answer(), make_answer(**planted)), [])


class Plans(unittest.TestCase):
    def test_a_seed_is_a_plan(self):
        kinds = possible_kinds({"network", "mounts", "clocks"})
        self.assertEqual(kinds, list(KINDS))
        plan = make_plan(7, 40, kinds)
        self.assertEqual(plan, make_plan(7, 40, kinds))
        self.assertNotEqual(plan, make_plan(8, 40, kinds))
        self.assertEqual({fault.kind for fault in plan[:len(KINDS)]}, set(KINDS))

    def test_what_is_not_possible_is_not_planned(self):
        self.assertEqual(possible_kinds(()), [name for name, kind in KINDS.items() if not kind.needs])


@unittest.skipUnless(sandbox.is_inside(), "needs namespaces")
class Tools(unittest.TestCase):
    def round_trips(self, address, count):
        """The seconds that datagrams to a member and back take, of those that come back."""
        took = []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.settimeout(0.2)
            for number in range(count):
                begin = time.monotonic()
                try:
                    probe.sendto(bytes([number]), (address, 7))
                    while probe.recv(100) != bytes([number]):
                        pass
                    took.append(time.monotonic() - begin)
                except OSError:
                    continue
        return took

    def await_echo(self, address):
        wait_until(lambda: self.round_trips(address, 1), 10, "an echo")

    def test_cables(self):
        with Network(("a",)) as net:
            address = net.address("a")
            echo = subprocess.Popen([*net.enter("a"), sys.executable, "-c", ECHO, address], stdout=subprocess.PIPE)
            try:
                echo.stdout.readline()
                self.await_echo(address)
                net.pull("a")
                self.assertEqual(self.round_trips(address, 3), [])
                net.plug("a")
                self.await_echo(address)
                self.check_relay(net, address)
            finally:
                echo.kill()
                echo.wait()
                echo.stdout.close()

    def check_relay(self, net, address):
        def with_relay(into, out_of, count):
            relay = net.relay("a", 1, into, out_of)
            if max(into[1], out_of[1]) < 1:
                self.await_echo(address)
            took = self.round_trips(address, count)
            net.unrelay("a", relay)
            self.await_echo(address)
            return took

        self.assertEqual(with_relay((0, 1), (0, 0), 3), [])
        self.assertEqual(with_relay((0, 0), (0, 1), 3), [])
        self.assertGreaterEqual(min(with_relay((30, 0), (20, 0), 10)), 0.05)
        self.assertIn(len(with_relay((0, 0.5), (0, 0), 40)), range(5, 36))


def kill_everybody(cluster, _victim, fault):
    """No node is left for longer than three leases: clients must be told, and that is an error."""
    for node in NODES:
        cluster.kill(node)
    time.sleep(fault.seconds)
    for node in NODES:
        cluster.start(node)


def leave_things_behind(cluster, _victim, _fault):
    cluster.planted = subprocess.Popen(["sleep", "1000"])
    with open("/dev/shm/planted", "w", encoding="utf-8"):
        pass


class Violations(unittest.TestCase):
    def violations_of(self, disturb, seconds=0.1, spoil=None):
        KINDS["planted"] = Kind(disturb, victim="control")
        run = Run(1, [Fault("planted", 0, seconds, 1)], [], lambda words: None)
        if spoil:
            watch = run._watch_quiet

            def spoil_and_watch():
                spoil(run)
                watch()

            run._watch_quiet = spoil_and_watch
        try:
            run.run()
        finally:
            del KINDS["planted"]
        return run, "\n".join(run.violations)

    def test_nobody_is_left(self):
        run, words = self.violations_of(kill_everybody, 8)
        self.assertIn("client error", words)
        self.assertGreater(sum(client.errors for client in run.clients), 0)
        self.assertEqual(sum(client.wrong for client in run.clients), 0, words)

    @unittest.skipUnless(sandbox.is_inside(), "needs namespaces")
    def test_a_wrong_answer_and_leftovers(self):
        def spoil(run):
            for answer in run.clients[0].references[0]:
                answer.text = answer.text[:-1] + "\n"

        run, words = self.violations_of(leave_things_behind, spoil=spoil)
        run.cluster.planted.kill()
        run.cluster.planted.wait()
        os.unlink("/dev/shm/planted")
        self.assertIn("another text", words)
        self.assertIn(f"process {run.cluster.planted.pid}", words)
        self.assertIn("/dev/shm/planted", words)
        self.assertEqual({client.name for client in run.clients if client.wrong}, {"greedy"})


if __name__ == "__main__":
    sandbox.enter(())
    unittest.main(verbosity=2)
