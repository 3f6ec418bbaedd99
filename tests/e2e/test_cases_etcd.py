"""Cases of the field about the records in etcd, by number: 3, 5, 9. Three real members; nodes, orchestrator and gateway as ever."""
import signal
import threading
import time
import unittest

from harness import PATIENT, Case, Deployment, run, stream, wait_until
from support.etcd import Door, Etcd
from test_failover import lose

ENGINE = '{ type = "toy", sessions = 24, decode_us = 3000 }'


class Records(Case):
    TOKENS = 300

    def ask(self, number):
        return [{"role": "user", "content": f"Ship {number}, what do you carry?"}]

    def references(self, running, count):
        return [stream(running, self.ask(number), max_tokens=self.TOKENS) for number in range(count)]

    def streams(self, running, count):
        """All at once: the threads, and what came of each so far."""
        answers = {}
        clients = [threading.Thread(target=lambda number=number: answers.update(
            {number: stream(running, self.ask(number), f"ship {number}", max_tokens=self.TOKENS)})) for number in range(count)]
        for client in clients:
            client.start()
        open_turns = f"baton_gateway_open_turns {count}".encode()
        wait_until(lambda: open_turns in running.get("/metrics"), 10, f"{count} turns are open")
        return clients, answers

    def check_equal(self, references, answers):
        self.assertEqual(sorted(answers), list(range(len(references))))
        for number, reference in enumerate(references):
            self.assertEqual(answers[number].seen, reference.seen)

    @staticmethod
    def owners(running):
        return {group["group"]: (group["owner"], group["epoch"]) for group in running.status()["groups"]}

    def test_case_03_etcd_leader_frozen(self):
        with Etcd() as etcd, Deployment(engine=ENGINE, store=etcd.store) as running:
            references = self.references(running, 11)
            before = self.owners(running)
            clients, answers = self.streams(running, 10)
            leader = etcd.leader()
            etcd.signal(leader, signal.SIGSTOP)
            frozen_at = time.monotonic()
            answers[10] = stream(running, self.ask(10), "ship 10", max_tokens=self.TOKENS)
            for client in clients:
                client.join()
            self.check_equal(references, answers)
            self.assertEqual(self.owners(running), before, "somebody else owns a group")
            # Another member leads by now, and the orchestrator writes there.
            drain = ("drain", "a", "--orchestrator", f"127.0.0.1:{running.control_port}")
            self.assertEqual(run(*drain)[0], 0)
            wait_until(lambda: "a" not in [owner for owner, _ in self.owners(running).values()], 5, "it owns nothing any more")
            time.sleep(max(0, frozen_at + 12 - time.monotonic()))
            etcd.signal(leader, signal.SIGCONT)
            self.assertEqual(run(*drain, "--undo")[0], 0)
            killer = lose(running, signal.SIGKILL, 20)
            self.assertEqual(stream(running, self.ask(0), "last", killer, max_tokens=self.TOKENS).seen, references[0].seen)

    def test_case_05_slow_etcd(self):
        """Every answer of etcd takes 0.7 leases; nobody loses anything, and when an owner dies, another takes over."""
        with Etcd(1) as etcd, Door(int(etcd.store.rpartition(":")[2])) as door, \
                Deployment(engine=ENGINE, store=f"etcd:http://127.0.0.1:{door.port}") as running:
            references = self.references(running, 6)
            before = self.owners(running)
            door.delay = 0.7
            for _ in range(5):
                clients, answers = self.streams(running, 6)
                for client in clients:
                    client.join()
                self.check_equal(references, answers)
            self.assertEqual(self.owners(running), before, "somebody else owns a group")
            killer = lose(running, signal.SIGKILL, 20)
            after = stream(running, self.ask(0), "ship 0", killer, max_tokens=self.TOKENS)
            self.assertEqual(after.seen, references[0].seen)
            self.assertEqual(after.end["failovers"], 1)

    def test_case_09_an_owner_dies_while_etcd_cannot_be_reached(self):
        with Etcd(1) as etcd, Door(int(etcd.store.rpartition(":")[2])) as door, \
                Deployment(engine=ENGINE, store=f"etcd:http://127.0.0.1:{door.port}", defaults=PATIENT) as running:
            references = self.references(running, 1)
            shut = []

            def cut_off(answer):
                if len(answer.positions) == 20:
                    door.is_shut = True
                    shut.append(answer.nodes[-1])
                    threading.Thread(target=self.away, args=(running, etcd, door, shut[0])).start()

            answer = stream(running, self.ask(0), "ship 0", cut_off, max_tokens=self.TOKENS)
            self.assertEqual(answer.seen, references[0].seen)
            self.assertEqual(answer.end["failovers"], 1)
            wait_until(lambda: shut[0] not in [owner for owner, _ in self.owners(running).values()], 5, "it owns nothing any more")
            status = running.status()
            self.assertEqual([node["name"] for node in status["nodes"] if not node["alive"]], shut)
            for group in status["groups"]:
                self.assertNotIn(shut[0], group["in_sync"])

    @staticmethod
    def away(running, etcd, door, owner):
        """While the orchestrator is cut off, its owner dies, and etcd forgets what was before two thousand changes of others."""
        running.signal(owner, signal.SIGKILL)
        etcd.busy(2000)
        door.is_shut = False


if __name__ == "__main__":
    unittest.main()
