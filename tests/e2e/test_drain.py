"""Planned moves: a node is drained, or stopped with SIGTERM, while it serves; clients notice nothing."""
import signal
import threading
import time
import unittest

from harness import PATIENT, Case, Deployment, run, stream, wait_until

TOKENS = 120
LONG = 600  # goes on for longer than a command takes to start, also on a busy machine


def ask(question):
    return [{"role": "user", "content": question}]


class Drain(Case):
    def drain(self, running, node, *more):
        return run("drain", node, "--orchestrator", f"127.0.0.1:{running.control_port}", *more)

    def move(self, running, session, node):
        return run("move", session, node, "--orchestrator", f"127.0.0.1:{running.control_port}")

    def owned(self, running, node):
        return [group["group"] for group in running.status().get("groups", ()) if group["owner"] == node]

    def serving(self, running, node):
        """The group in which a node serves, once the status has it."""
        found = []

        def look():
            found[:] = [it for it in running.status()["groups"] if it["owner"] == node and it.get("sessions")]
            return found

        wait_until(look, 5, f"{node} is seen to serve")
        return found[0]

    def causes(self, running):
        wait_until(lambda: running.status()["failovers"], 5, "the gateway has heard of it")
        return {event["cause"] for event in running.status()["failovers"]}

    def test_a_node_that_serves_is_drained(self):
        with Deployment(defaults=PATIENT) as running:
            reference = stream(running, ask("tell me"), "reference", max_tokens=LONG)
            drained = {}

            def seen(answer):
                if not drained and len(answer.positions) >= 20:
                    drained["node"] = answer.nodes[-1]
                    drained["thread"] = threading.Thread(
                        target=lambda: drained.update(outcome=self.drain(running, drained["node"])))
                    drained["thread"].start()

            answer = stream(running, ask("tell me"), "moved", seen, max_tokens=LONG)
            drained["thread"].join()
            self.assertEqual(drained["outcome"], (0, f"node {drained['node']} owns nothing\n", ""))
            self.assertEqual(answer.seen, reference.seen)
            self.assertEqual(answer.end["failovers"], 1)
            self.assertEqual(answer.end["recomputed_tokens"], 0)
            self.assertNotEqual(answer.nodes[-1], drained["node"])
            self.assertEqual(self.causes(running), {"planned move"})
            self.assertEqual(self.owned(running, drained["node"]), [])
            again = stream(running, ask("tell me"), "later", max_tokens=TOKENS)
            self.assertNotIn(drained["node"], again.nodes)
            self.assertEqual(self.drain(running, drained["node"], "--undo")[0], 0)
            wait_until(lambda: self.owned(running, drained["node"]), 5, "it owns a group again")

    def test_a_session_is_moved_to_a_node_that_held_nothing_of_it(self):
        with Deployment(defaults=PATIENT + "\nreplicas = 1") as running:
            reference = stream(running, ask("tell me"), "reference", max_tokens=LONG)
            moved = {}

            def seen(answer):
                if not moved and len(answer.positions) >= 20:
                    owner = answer.nodes[-1]
                    group = self.serving(running, owner)
                    moved["to"] = next(node for node in running.nodes if node not in (owner, *group["in_sync"]))
                    moved["thread"] = threading.Thread(
                        target=lambda: moved.update(outcome=self.move(running, "mine", moved["to"])))
                    moved["thread"].start()

            answer = stream(running, ask("tell me"), "mine", seen, max_tokens=LONG)
            moved["thread"].join()
            code, words, _ = moved["outcome"]
            self.assertEqual(code, 0)
            self.assertRegex(words, f"node {moved['to']} serves group [0-9]+, and session mine in it")
            self.assertEqual(answer.seen, reference.seen)
            self.assertEqual(answer.nodes[-1], moved["to"])
            self.assertEqual((answer.end["failovers"], answer.end["recomputed_tokens"]), (1, 0))
            self.assertEqual(self.move(running, "nobody", "a"),
                             (1, "", 'baton: no gateway knows a session "nobody"\n'))
            self.assertEqual(self.move(running, "mine", "x"),
                             (1, "", 'baton: no node "x" is alive, or it drains\n'))

    def test_an_orchestrator_that_does_not_answer(self):
        with Deployment(nodes=("a",)) as running:
            running.signal("control", signal.SIGSTOP)
            begun = time.monotonic()
            for command in (("drain", "a"), ("move", "mine", "a")):
                code, _, words = run(*command, "--orchestrator", f"127.0.0.1:{running.control_port}", "--timeout-ms", "300")
                self.assertEqual(code, 3)
                self.assertIn("no answer", words)
            self.assertLess(time.monotonic() - begun, 6)
            running.signal("control", signal.SIGCONT)

    def test_what_cannot_be_drained(self):
        with Deployment(nodes=("a",)) as running:
            code, _, words = self.drain(running, "x")
            self.assertEqual((code, words), (1, 'baton: no node "x" is alive\n'))
            code, _, words = self.drain(running, "a", "--timeout-ms", "300")
            self.assertEqual(code, 1)
            self.assertIn("node a still owns group 1", words)
            stream(running, ask("still there?"), "s", max_tokens=5)
            # Nobody is there to take anything, so SIGTERM is not delayed.
            running.signal("a", signal.SIGTERM)
            wait_until(lambda: running.process.poll() is not None or not running.status().get("nodes", [{}])[0].get("alive"),
                       3, "the node is gone")

    def test_rolling_restart_under_load(self):
        with Deployment(defaults=PATIENT) as running:
            questions = ["one", "two", "three"]
            references = {question: stream(running, ask(question), f"reference {question}", max_tokens=60)
                          for question in questions}
            over = threading.Event()
            failures, answers = [], []

            def talk(question):
                turn = 0
                while not over.is_set():
                    turn += 1
                    try:
                        answer = stream(running, ask(question), f"{question} {turn}", max_tokens=60)
                        answers.append(answer)
                        if answer.seen != references[question].seen:
                            failures.append((question, turn, answer.text))
                    except Exception as broken:  # told below, by the thread of the test
                        failures.append((question, turn, repr(broken)))

            threads = [threading.Thread(target=talk, args=(question,)) for question in questions]
            for thread in threads:
                thread.start()
            try:
                for node in running.nodes:
                    self.restart(running, node)
            finally:
                over.set()
                for thread in threads:
                    thread.join()
            self.assertEqual(failures, [])
            self.assertGreater(len(answers), 3)
            moved = sum(answer.end["failovers"] for answer in answers)
            print(f"{len(answers)} answers, {moved} moves within them")
            self.assertEqual(sum(answer.end["recomputed_tokens"] for answer in answers), 0)
            self.assertEqual(self.causes(running), {"planned move"})

    def restart(self, running, node):
        """SIGTERM, the end, a new process, all links up and all in sync."""
        begun = time.monotonic()
        running.signal(node, signal.SIGTERM)
        wait_until(lambda: node not in [it["name"] for it in running.status().get("nodes", ()) if it["alive"]], 10,
                   f"{node} gone")
        print(f"{node} handed over and ended in {time.monotonic() - begun:.2f} s")
        running.start_again(node)
        wait_until(lambda: all(len(group["in_sync"]) == 2 for group in running.status()["groups"]), 30, "all in sync")


if __name__ == "__main__":
    unittest.main()
