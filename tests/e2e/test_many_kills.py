"""Nodes really killed many times in a row, with restarts in between, two conversations at once, and more conversations
than an engine has places."""
import os
import random
import signal
import threading
import unittest

from harness import PATIENT, Answer, Case, Deployment, llama, stream

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
        self.kill(llama(MODEL), 5)


if __name__ == "__main__":
    unittest.main()
