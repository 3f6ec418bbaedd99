"""Cases of the field that need a real model, by number: 37, 39, 41, 83."""
import os
import random
import shutil
import signal
import tempfile
import unittest

from harness import PATIENT, Case, Deployment, deployment_text, free_port, is_alive, llama, run, stream, wait_until
from test_failover import lose
from test_many_kills import MODEL, TOKENS, ask

WINDOW = 64  # tokens


@unittest.skipUnless(os.environ.get("BATON_HAS_LLAMA") == "1", "this build has no llama.cpp engine")
class RealModel(Case):
    def check_moved(self, running, question, reference, after):
        """The same again, with the loss of its node after some tokens: nothing but the lag is computed again."""
        answer = stream(running, question, "moved", lose(running, signal.SIGKILL, after), max_tokens=TOKENS)
        self.assertEqual(answer.seen, reference.seen)
        self.assertEqual(answer.end["failovers"], 1)
        self.assertLessEqual(answer.end["recomputed_tokens"], 8)

    def test_case_37_quantised_kv(self):
        for kv_type in ("q8_0", "q4_0"):
            with self.subTest(kv_type), Deployment(nodes=("a", "b"), engine=llama(MODEL, kv_type=kv_type),
                                                   defaults=PATIENT) as running:
                reference = stream(running, ask("ALBATROSS"), "reference", max_tokens=TOKENS)
                self.check_moved(running, ask("ALBATROSS"), reference, 30)

    def test_case_37_another_type_of_kv_is_refused_by_name(self):
        ports = free_port(), free_port()
        text = deployment_text(*ports, nodes=("a", "b"), engine=llama(MODEL, kv_type="q8_0"))
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
        with Deployment(nodes=("a", "b"), engine=llama(MODEL, context, places), defaults=PATIENT) as running:
            for number in range(8):
                stream(running, ask("x" * dice.randrange(1, 60)), f"short {number}", max_tokens=dice.randrange(1, 24))
            long = [{"role": "user", "content": "Continue: " + "the lamp, the rope, the bell, the sea, " * 16}]
            reference = stream(running, long, "reference", max_tokens=TOKENS)
            self.assertGreater(sum(reference.usage), 0.6 * context)
            self.check_moved(running, long, reference, 10)

    def go_on(self, running, answer, session):
        """The next turn of that conversation."""
        following = ask("WINDOW") + [{"role": "assistant", "content": answer.text}, {"role": "user", "content": "And then?"}]
        return stream(running, following, session, max_tokens=TOKENS)

    def check_length(self, running, length):
        """A conversation of exactly so many tokens loses its node and goes on elsewhere."""
        prompt = stream(running, ask("WINDOW"), max_tokens=1).usage[0]
        how = {"max_tokens": length - prompt}
        reference = stream(running, ask("WINDOW"), f"reference {length}", **how)
        self.assertEqual(sum(reference.usage), length)
        after = self.go_on(running, reference, f"reference {length}")
        killer = lose(running, signal.SIGKILL, how["max_tokens"])
        first = stream(running, ask("WINDOW"), f"moved {length}", killer, **how)
        self.assertEqual(len(killer.lost), 1)
        moved = self.go_on(running, first, f"moved {length}")
        self.assertEqual((first.seen, moved.seen), (reference.seen, after.seen))
        self.assertNotIn(killer.lost[0], moved.nodes)
        running.start_again(killer.lost[0])

    def test_case_39_a_sliding_window_model_past_its_window(self):
        """Rows of such a model cannot be carried: it says so at its start, and its conversations are replayed, to the bit."""
        from support import window_model  # here, where its libraries are sure to be needed
        with tempfile.TemporaryDirectory(prefix="baton-e2e-") as folder:
            model = os.path.join(folder, "window.gguf")
            window_model.write(model, tokenizer_of=MODEL, window=WINDOW, context=512)
            with Deployment(engine=llama(model, context=512), defaults=PATIENT) as running:
                self.assertEqual(running.logged().count("self-test mode=replay"), len(running.nodes))
                for length in (WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW):
                    with self.subTest(length=length):
                        self.check_length(running, length)
                reference = stream(running, ask("WINDOW"), "reference", max_tokens=4 * WINDOW)
                killer = lose(running, signal.SIGKILL, 2 * WINDOW)
                answer = stream(running, ask("WINDOW"), "moved", killer, max_tokens=4 * WINDOW)
                self.assertEqual(answer.seen, reference.seen)
                self.assertEqual(answer.end["failovers"], 1)
                self.assertGreaterEqual(answer.end["recomputed_tokens"], 2 * WINDOW)

    def test_case_83_a_warm_standby_that_cannot_wake_up(self):
        """Its model's file is gone when it has to compute for the first time since its start: it dies of that, and the next
        one is used."""
        with tempfile.TemporaryDirectory(prefix="baton-e2e-") as folder:
            models = {node: shutil.copy(MODEL, os.path.join(folder, f"{node}.gguf")) for node in ("a", "b", "c")}
            with Deployment(engine={node: llama(model) for node, model in models.items()}, defaults=PATIENT) as running:
                reference = stream(running, ask("ALBATROSS"), "reference", max_tokens=TOKENS)
                spoilt = []

                def seen(answer):
                    if spoilt or len(answer.positions) < 20:
                        return
                    owner = answer.nodes[-1]
                    standby, other = (node for node in running.nodes if node != owner)
                    # Who is to leave comes last.
                    self.assertEqual(run("drain", other, "--orchestrator", f"127.0.0.1:{running.control_port}")[0], 0)
                    os.truncate(models[standby], 4096)
                    spoilt.extend((owner, standby, other))
                    running.signal(owner, signal.SIGKILL)

                answer = stream(running, ask("ALBATROSS"), "moved", seen, max_tokens=TOKENS)
                owner, standby, other = spoilt
                self.assertEqual(answer.seen, reference.seen)
                self.assertEqual((answer.nodes[0], answer.nodes[-1]), (owner, other))
                wait_until(lambda: not is_alive(running.pids[standby]), 5, f"{standby} has ended")
                self.assertLessEqual(answer.end["recomputed_tokens"], 8)


if __name__ == "__main__":
    unittest.main()
