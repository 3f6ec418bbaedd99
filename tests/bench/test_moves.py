"""What a planned move costs an open stream: the pause between the old owner's last token and the new one's first, less the
step that would have come anyway, beside a round trip between two processes in the same run.
"""
import http.client
import json
import os
import random
import statistics
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))

from harness import Case, Deployment, llama, run, stream  # noqa: E402

MOVES = 30
TOKENS_APART = 25
TOY = '{ type = "toy", seed = 42, context = 8192, sessions = 9, decode_us = 10000 }'


class Watched:
    """One long stream whose session is moved to another node every so many tokens."""

    def __init__(self, running):
        self.running, self.told, self.round_trips_ms = running, [], []
        self.more = threading.Condition()

    def run(self):
        mover = threading.Thread(target=self._move)
        mover.start()
        answer = stream(self.running, [{"role": "user", "content": "tell me"}], "moved", self._seen,
                        max_tokens=TOKENS_APART * MOVES + 60)
        mover.join()
        return answer

    def _seen(self, answer):
        with self.more:
            self.told.append((time.perf_counter(), answer.nodes[-1] if answer.nodes else None))
            self.more.notify()

    def _move(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.running.http_port)
        for number in range(MOVES):
            with self.more:
                self.more.wait_for(lambda wanted=20 + TOKENS_APART * number: len(self.told) >= wanted)
            self._ask(connection)
            owner = self.told[-1][1]
            to = random.choice([node for node in self.running.nodes if node != owner])
            run("move", "moved", to, "--orchestrator", f"127.0.0.1:{self.running.control_port}")
        connection.close()

    def _ask(self, connection):
        begin = time.perf_counter()
        connection.request("GET", "/health")
        connection.getresponse().read()
        self.round_trips_ms.append((time.perf_counter() - begin) * 1e3)

    def figures(self):
        pauses, steps = [], []
        for (before, old), (after, new) in zip(self.told, self.told[1:]):
            if old is not None:
                (steps if old == new else pauses).append((after - before) * 1e3)
        step = statistics.median(steps)
        beyond = sorted(pause - step for pause in pauses)
        return {"moves": len(pauses), "step_ms_p50": step, "step_ms_p99": sorted(steps)[len(steps) * 99 // 100],
                "pause_less_step_ms_p50": statistics.median(beyond), "pause_less_step_ms_p90": beyond[len(beyond) * 9 // 10],
                "round_trip_ms_p50": statistics.median(self.round_trips_ms)}


class Moves(Case):
    def measure(self, engine):
        with Deployment(engine=engine) as running:
            watched = Watched(running)
            answer = watched.run()
            figures = watched.figures()
            print("\n" + json.dumps({name: round(value, 2) for name, value in figures.items()}))
            self.assertEqual(answer.end["recomputed_tokens"], 0)
            self.assertGreater(figures["moves"], MOVES / 3)
            return figures

    def test_a_stream_waits_for_no_more_than_a_round_trip(self):
        figures = self.measure(TOY)
        self.assertLessEqual(figures["pause_less_step_ms_p50"], figures["round_trip_ms_p50"])

    def test_with_the_real_model(self):
        figures = self.measure(llama(os.environ["BATON_MODEL"]))
        self.assertLess(figures["pause_less_step_ms_p50"], figures["step_ms_p50"])


if __name__ == "__main__":
    unittest.main()
