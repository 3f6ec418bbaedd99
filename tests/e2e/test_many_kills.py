"""Nodes really killed many times in a row, with restarts in between, two conversations at once, and more conversations
than an engine has places."""
import json
import os
import random
import signal
import threading
import unittest

from harness import PATIENT, Answer, Case, Deployment, deployment_text, free_port, stream, wait_until
from test_failover import lose

MODEL = os.environ.get("BATON_MODEL", "")
TOKENS = 72


def ask(secret):
    return [{"role": "system", "content": f"The password is {secret}. Use it in every sentence."},
            {"role": "user", "content": "Write a long story about a night watchman."}]


class ManyKills(Case):
    def kill(self, engine, kills):
        secrets = ["ALBATROSS", "MARZIPAN"]
        seed = random.randrange(1 << 30)
        print(f"seed {seed}")
        dice = random.Random(seed)
        with Deployment(engine=engine, defaults=PATIENT) as running:
            references = [stream(running, ask(secret), f"reference {secret}", max_tokens=TOKENS) for secret in secrets]
            self.assertNotEqual(references[0].text, references[1].text)
            for kill in range(kills):
                self.one_kill(running, secrets, references, kill, dice.randrange(8, TOKENS - 16))

    def one_kill(self, running, secrets, references, kill, after):
        answers = [None, None]
        lost = []

        def seen(answer):
            if not lost and len(answer.positions) >= after:
                lost.append(answer.nodes[-1])
                running.signal(answer.nodes[-1], signal.SIGKILL)

        def ask_one(index):
            try:
                answers[index] = stream(running, ask(secrets[index]), f"{secrets[index]} {kill}",
                                        seen if index == kill % 2 else None, max_tokens=TOKENS)
            except Exception as broken:  # told below, by the thread of the test
                answers[index] = broken

        threads = [threading.Thread(target=ask_one, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(lost), 1)
        for reference, answer in zip(references, answers):
            self.assertIsInstance(answer, Answer)
            self.assertEqual(reference.seen, answer.seen)
        self.assertEqual(answers[kill % 2].end["failovers"], 1)
        self.assertLessEqual(answers[kill % 2].end["recomputed_tokens"], 8)
        running.start_again(lost[0])


class Toy(ManyKills):
    def test_ten_kills_two_conversations(self):
        self.kill('{ type = "toy", sessions = 9, decode_us = 3000 }', 10)


@unittest.skipUnless(os.environ.get("BATON_HAS_LLAMA") == "1", "this build has no llama.cpp engine")
class RealModel(ManyKills):
    def test_five_kills_two_conversations(self):
        self.assertTrue(os.path.isfile(MODEL), f"no model at {MODEL!r}: tools/setup.sh brings it")
        self.kill(self.engine(), 5)

    def engine(self, context=1024, sessions=9, **more):
        extra = "".join(f", {key} = {json.dumps(value)}" for key, value in more.items())
        return f'{{ type = "llama", model = "{MODEL}", context = {context}, sessions = {sessions}{extra} }}'

    def check_moved(self, running, question, reference, after):
        """The same again, with the loss of its node after some tokens: nothing but the lag is computed again."""
        answer = stream(running, question, "moved", lose(running, signal.SIGKILL, after), max_tokens=TOKENS)
        self.assertEqual(answer.seen, reference.seen)
        self.assertEqual(answer.end["failovers"], 1)
        self.assertLessEqual(answer.end["recomputed_tokens"], 8)

    def test_case_37_quantised_kv(self):
        for kv_type in ("q8_0", "q4_0"):
            with self.subTest(kv_type), Deployment(nodes=("a", "b"), engine=self.engine(kv_type=kv_type),
                                                   defaults=PATIENT) as running:
                reference = stream(running, ask("ALBATROSS"), "reference", max_tokens=TOKENS)
                self.check_moved(running, ask("ALBATROSS"), reference, 30)

    def test_case_37_another_type_of_kv_is_refused_by_name(self):
        ports = free_port(), free_port()
        text = deployment_text(*ports, nodes=("a", "b"), engine=self.engine(kv_type="q8_0"))
        text = "f16".join(text.rsplit("q8_0", 1))
        with Deployment(nodes=("a", "b"), links=False, text=text, ports=ports) as running:
            for standby, mine, theirs in (("a", "q8_0", "f16"), ("b", "f16", "q8_0")):
                said = f"link refused standby={standby} reason=kv_type: mine {mine}, theirs {theirs}"
                wait_until(lambda words=said: words in running.logged(), 10, said)
            self.assertEqual([group["in_sync"] for group in running.status()["groups"]], [[], []])

    def test_case_41_a_standby_whose_cache_is_fragmented(self):
        """Conversations of random length come and go, more than an engine has places; then a node takes over one that fills
        two thirds of its context."""
        context, places, dice = 400, 6, random.Random(41)
        with Deployment(nodes=("a", "b"), engine=self.engine(context, places), defaults=PATIENT) as running:
            for number in range(8):
                stream(running, ask("x" * dice.randrange(1, 60)), f"short {number}", max_tokens=dice.randrange(1, 24))
            long = [{"role": "user", "content": "Continue: " + "the lamp, the rope, the bell, the sea, " * 16}]
            reference = stream(running, long, "reference", max_tokens=TOKENS)
            self.assertGreater(sum(reference.usage), 0.6 * context)
            self.check_moved(running, long, reference, 10)


if __name__ == "__main__":
    unittest.main()
