"""A stream outlives the node that serves it: the client sees what it would have seen without the loss."""
import signal
import threading
import unittest

import openai

from harness import Case, Deployment, stream, wait_until

QUESTION = [{"role": "system", "content": "You keep a lighthouse."}, {"role": "user", "content": "Tell me of the sea."}]


def lose(deployment, number, *at):
    """After each of `at` chunks, signals the node that serves the answer then."""
    left = list(at)
    lost = []

    def seen(answer):
        if left and len(answer.positions) >= left[0]:
            left.pop(0)
            lost.append(answer.nodes[-1])
            deployment.signal(answer.nodes[-1], number)

    seen.lost = lost
    return seen


class Failover(Case):
    def check_equal(self, reference, answer, failovers):
        self.assertEqual(reference.seen, answer.seen)
        self.assertEqual(answer.positions, sorted(set(answer.positions)), "a position came twice or went back")
        self.assertEqual(reference.positions[-1], answer.positions[-1])
        # A busy machine may make a live node look dead as well: that is safe, and must not show.
        self.assertGreaterEqual(answer.end["failovers"], failovers)

    def test_kill_of_the_primary(self):
        with Deployment() as running:
            reference = stream(running, QUESTION, "reference")
            killer = lose(running, signal.SIGKILL, 20)
            answer = stream(running, QUESTION, "killed", killer)
            self.check_equal(reference, answer, 1)
            self.assertLessEqual(answer.end["recomputed_tokens"], 4)
            self.assertNotEqual(answer.nodes[-1], killer.lost[0])
            # The session lives on: its next turn computes nothing of the history again.
            more = QUESTION + [{"role": "assistant", "content": answer.text}, {"role": "user", "content": "Go on."}]
            first, second = stream(running, more, "reference"), stream(running, more, "killed")
            self.assertEqual(first.seen, second.seen)
            self.assertGreater(second.end["cached_tokens"], 60)

    def test_two_kills_in_one_seeded_answer(self):
        how = {"temperature": 0.8, "top_p": 0.9, "seed": 7}
        with Deployment() as running:
            reference = stream(running, QUESTION, "reference", **how)
            killer = lose(running, signal.SIGKILL, 20, 40)
            answer = stream(running, QUESTION, "killed", killer, **how)
            self.check_equal(reference, answer, 2)
            self.assertEqual(len(set(killer.lost)), 2)

    def test_budget_and_usage(self):
        with Deployment() as running:
            answer = stream(running, QUESTION, "k", lose(running, signal.SIGKILL, 30), max_tokens=50)
            self.assertEqual(answer.finish, "length")
            self.assertEqual(answer.usage[1], 50)
            self.assertEqual(len(answer.text), 50)

    def test_stop_string_over_the_hand_over(self):
        messages = [{"role": "user", "content": "say:" + "x" * 30 + "END# and more"}]
        with Deployment() as running:
            # 30 characters and "EN", which is held back.
            answer = stream(running, messages, "k", lose(running, signal.SIGKILL, 32), stop="END#", ignore_eos=False)
            self.assertEqual((answer.text, answer.finish), ("x" * 30, "stop"))

    def test_multibyte_character_over_the_hand_over(self):
        text = "lamp \N{FACE WITH TEARS OF JOY} and \N{LATIN SMALL LETTER E WITH ACUTE} tower"
        messages = [{"role": "user", "content": "say:" + text}]
        with Deployment() as running:
            answer = stream(running, messages, "k", lose(running, signal.SIGKILL, 7), ignore_eos=False)
            self.assertEqual((answer.text, answer.finish), (text, "stop"))

    def test_kill_while_not_streaming(self):
        with Deployment() as running:
            def ask(session):
                with running.client() as client:
                    answer = client.chat.completions.create(
                        model="toy", messages=QUESTION, max_tokens=150, seed=5, temperature=0,
                        extra_body={"session_id": session, "ignore_eos": True})
                return answer.choices[0].message.content, answer.choices[0].finish_reason, answer.usage.completion_tokens

            reference = ask("reference")
            got = []
            asking = threading.Thread(target=lambda: got.append(ask("killed")))
            busy = {}

            def find_busy():
                busy.update({node["name"]: node.get("figures", {}).get("tokens", 0) for node in running.status()["nodes"]})
                return any(busy[name] > before.get(name, 0) for name in busy)

            wait_until(lambda: running.status()["nodes"], 5, "a status")
            before = {node["name"]: node.get("figures", {}).get("tokens", 0) for node in running.status()["nodes"]}
            asking.start()
            wait_until(find_busy, 10, "a node that works")
            owner = max(busy, key=lambda name: busy[name] - before.get(name, 0))
            running.signal(owner, signal.SIGKILL)
            asking.join(30)
            self.assertEqual(got, [reference])

    def test_three_streams_at_once(self):
        with Deployment() as running:
            reference = [stream(running, QUESTION, f"r{i}", seed=i, temperature=1).seen for i in range(3)]
            answers = [None] * 3
            killer = lose(running, signal.SIGKILL, 20)

            def ask(i):
                answers[i] = stream(running, QUESTION, f"k{i}", killer if i == 0 else None, seed=i, temperature=1)

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            self.assertEqual(reference, [answer and answer.seen for answer in answers])

    def test_frozen_primary_wakes_up(self):
        with Deployment() as running:
            reference = stream(running, QUESTION, "reference", max_tokens=200)
            freezer = lose(running, signal.SIGSTOP, 50)
            answer = stream(running, QUESTION, "frozen", freezer, max_tokens=200)
            self.check_equal(reference, answer, 1)
            def owners():
                return {(group["group"], group["epoch"], group["owner"]) for group in running.status()["groups"]
                        if group.get("sessions")}

            before = owners()
            running.signal(freezer.lost[0], signal.SIGCONT)
            wait_until(running.healthy, 10, "the woken node is a standby again")
            self.assertEqual(before, owners(), "a conversation changed hands")
            more = QUESTION + [{"role": "assistant", "content": answer.text}, {"role": "user", "content": "Go on."}]
            self.assertEqual(stream(running, more, "reference").seen, stream(running, more, "frozen").seen)

    def test_nobody_is_left(self):
        with Deployment(nodes=("a",)) as running:
            finished = []

            def seen(answer):
                finished.append(answer.finish)
                if len(answer.positions) == 10:
                    running.signal("a", signal.SIGKILL)

            with self.within(20, "the error"), self.assertRaises(openai.APIError) as ended:
                stream(running, QUESTION, "k", seen)
            self.assertEqual(set(finished), {None}, "a finish reason that is not true")
            self.assertIn("unavailable", str(ended.exception).lower() + str(ended.exception.body).lower())
            with self.within(20, "the refusal"), self.assertRaises(openai.APIStatusError) as refused:
                with running.client() as client:
                    client.chat.completions.create(model="toy", messages=QUESTION, max_tokens=5)
            self.assertEqual(refused.exception.status_code // 100, 5)
            self.assertIn("message", refused.exception.body)


if __name__ == "__main__":
    unittest.main()
