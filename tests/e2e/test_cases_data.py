"""Cases of the field about what clients ask and what is kept of it, by number: 21, 31, 49, 81, 85."""
import collections
import os
import re
import signal
import threading
import unittest

import openai

from harness import PATIENT, SHARED_MEMORY, Case, Deployment, ask, run, stream, wait_until
from test_failover import lose

SANITIZED = bool(os.environ.get("BATON_SANITIZE"))  # such a build keeps freed memory for a while
SCHEMA = {"type": "json_schema", "json_schema": {"name": "lamp", "schema": {"type": "object", "properties": {
    "lit": {"type": "boolean"}, "keeper": {"type": "object", "properties": {"name": {"type": "string"}}}}}}}


class Formats(Case):
    """Constrained decoding is not there. Half of an answer under a grammar cannot be had by accident: it is refused by name."""

    def refused(self, running, **how):
        with running.client() as client, self.assertRaises(openai.BadRequestError) as refusal:
            client.chat.completions.create(model="toy", messages=[{"role": "user", "content": "a lamp, as JSON"}], **how)
        self.assertEqual(refusal.exception.type, "invalid_request_error")
        return refusal.exception

    def test_case_21_a_json_schema_is_refused_by_name(self):
        with Deployment(nodes=("a",)) as running:
            for streaming in (False, True):
                for wanted in (SCHEMA, {"type": "json_object"}):
                    refusal = self.refused(running, response_format=wanted, stream=streaming)
                    self.assertEqual((refusal.param, refusal.code), ("response_format", "unsupported_parameter"))
                    self.assertIn("response_format", refusal.message)
            for name in ("grammar", "guided_json", "json_schema"):
                refusal = self.refused(running, extra_body={name: "root ::= object"})
                self.assertEqual((refusal.param, refusal.code), (name, "unknown_parameter"))
            asked_for_nothing = stream(running, [{"role": "user", "content": "say:fine"}], ignore_eos=False,
                                       response_format={"type": "text"})
            self.assertEqual(asked_for_nothing.text, "fine")


class Retries(Case):
    """Case 31: the client's library loses patience while its conversation changes nodes, and sends the request again."""
    ASK = [{"role": "user", "content": "Which lamps burn tonight?"}]

    def count(self, running, what):
        return int(re.search(rb"^baton_gateway_%s_total (\d+)" % what.encode(), running.get("/metrics"), re.M)[1])

    def send(self, running, key, client=None, **how):
        how = {"max_tokens": 200, "stream": False, "extra_headers": {"Idempotency-Key": key}, **how}
        return ask(client or running.client(), self.ASK, "harbour", **how)

    @staticmethod
    def conversations(running):
        return {group["owner"]: group.get("sessions", 0) for group in running.status()["groups"]}

    def freeze_owner(self, running, before):
        """The node that has one more conversation than before, once it answers."""
        def more():
            return [owner for owner, count in self.conversations(running).items() if count > before[owner]]

        wait_until(more, 5, "the turn is open")
        owner, = more()
        tokens = self.count(running, "tokens")
        wait_until(lambda: self.count(running, "tokens") > tokens + 10, 5, "it is being answered")
        running.signal(owner, signal.SIGSTOP)
        return owner

    def test_case_31_a_retry_is_given_the_answer_of_the_first(self):
        patient = "suspect_ms = 5000\nlease_ms = 10000"
        with Deployment(engine='{ type = "toy", decode_us = 20000 }', defaults=patient) as running:
            reference = stream(running, self.ASK, "alone", max_tokens=200)
            turns, before = self.count(running, "turns"), self.conversations(running)
            answers = []
            hasty = running.client().with_options(timeout=3, max_retries=5)
            client = threading.Thread(target=lambda: answers.append(self.send(running, "k1", hasty)))
            client.start()
            frozen = self.freeze_owner(running, before)
            client.join()
            running.signal(frozen, signal.SIGCONT)
            self.assertEqual(answers[0].seen, reference.seen)
            self.assertGreaterEqual(answers[0].end["failovers"], 1)
            self.assertGreaterEqual(self.count(running, "turns_attached"), 1, "the client was in no hurry")
            self.after_the_end(running, reference)
            self.assertEqual(self.count(running, "turns"), turns + 1)
            after = stream(running, self.ASK + [{"role": "assistant", "content": reference.text}, {"role": "user", "content": "And?"}],
                           "harbour")
            self.assertGreater(after.end["cached_tokens"], 200, "the conversation is not as it was after one turn")

    def after_the_end(self, running, reference):
        """Sent once more, it is not run again; nor is another request under its key."""
        self.assertEqual(self.send(running, "k1").seen, reference.seen)
        with self.assertRaises(openai.ConflictError) as refusal:
            self.send(running, "k1", max_tokens=201)
        self.assertIn("idempotency key", refusal.exception.message)

    def test_case_31_a_stream_that_broke_is_taken_up(self):
        with Deployment(engine='{ type = "toy", decode_us = 5000 }') as running:
            reference = stream(running, self.ASK, "alone", max_tokens=200)
            with self.assertRaises(ConnectionError):
                self.send(running, "k2", stream=True, seen=self.leave)
            answer = self.send(running, "k2", stream=True)
            self.assertEqual(answer.seen, reference.seen)
            self.assertEqual(self.count(running, "turns"), 2)
            self.assertLess(len(answer.positions), len(reference.positions), "it was not given at once what there was")

    @staticmethod
    def leave(answer):
        if len(answer.positions) > 20:
            raise ConnectionError("the client leaves")


class Tenants(Case):
    PROMPT = "You answer for the harbour office. " + "Ships are named, counted and never mixed up. " * 20

    def ask(self, secret):
        return [{"role": "user", "content": f"{self.PROMPT}\nThe password of this tenant is {secret}."}]

    def go_on(self, secret, answer):
        return self.ask(secret) + [{"role": "assistant", "content": answer.text}, {"role": "user", "content": "Go on."}]

    def test_case_49_two_tenants_one_prompt(self):
        secrets = ("ALBATROSS", "MARZIPAN")
        with Deployment(defaults=PATIENT) as running:
            references = [stream(running, self.ask(secret), f"alone {secret}") for secret in secrets]
            nexts = [stream(running, self.go_on(*pair), f"alone {pair[0]}") for pair in zip(secrets, references)]
            self.assertNotEqual(references[0].text, references[1].text)
            for secret, reference in zip(secrets, references):
                self.one_tenant(running, secret, reference)
            for secret, reference, following in zip(secrets, references, nexts):
                after = stream(running, self.go_on(secret, reference), secret)
                self.assertEqual(after.seen, following.seen)
                self.assertEqual(after.end["cached_tokens"], following.end["cached_tokens"], "not its own history")

    def one_tenant(self, running, secret, reference):
        """Its first turn, with the loss of its node, after others have asked with the same prompt."""
        self.assertEqual(reference.end["cached_tokens"], 0)
        nameless = stream(running, self.ask(secret))
        killer = lose(running, signal.SIGKILL, 20)
        answer = stream(running, self.ask(secret), secret, killer)
        for one in (nameless, answer):
            self.assertEqual(one.seen, reference.seen)
            self.assertEqual(one.end["cached_tokens"], 0, "tells that somebody has asked the same")
        self.assertEqual(answer.end["failovers"], 1)
        running.start_again(killer.lost[0])


class Herd(Case):
    """Case 81: more conversations lose their node than the other one has places for."""
    ENGINES = {node: f'{{ type = "toy", sessions = {sessions}, decode_us = 1000 }}' for node, sessions in (("big", 60), ("small", 6))}
    MANY, TOKENS = 12, 200

    def ask(self, number):
        return [{"role": "user", "content": f"Ship {number}, what is your cargo?"}]

    def one(self, running, number, answers):
        try:
            answers[number] = stream(running, self.ask(number), f"ship {number}", max_tokens=self.TOKENS)
        except openai.APIError as failed:
            answers[number] = failed

    def herd(self, running):
        """All at once on the big node, which dies; its references, and what came of each."""
        drain = ("drain", "small", "--orchestrator", f"127.0.0.1:{running.control_port}")
        self.assertEqual(run(*drain)[0], 0)
        references = [stream(running, self.ask(number), max_tokens=self.TOKENS) for number in range(self.MANY)]
        self.assertEqual(run(*drain, "--undo")[0], 0)
        answers = {}
        clients = [threading.Thread(target=self.one, args=(running, number, answers)) for number in range(self.MANY)]
        for client in clients:
            client.start()
        wait_until(lambda: running.get("/metrics").count(b"baton_gateway_open_turns 12"), 5, "all are served")
        running.signal("big", signal.SIGKILL)
        for client in clients:
            client.join()
        return references, [answers[number] for number in range(self.MANY)]

    def test_case_81_they_wait_for_places(self):
        with Deployment(nodes=tuple(self.ENGINES), engine=self.ENGINES, defaults="suspect_ms = 1000\nlease_ms = 10000") as running:
            references, answers = self.herd(running)
            for reference, answer in zip(references, answers):
                self.assertEqual(answer.seen, reference.seen)

    def test_case_81_or_are_told_that_there_are_none(self):
        with Deployment(nodes=tuple(self.ENGINES), engine=self.ENGINES, defaults="lease_ms = 300") as running:
            references, answers = self.herd(running)
            refused = [answer for answer in answers if isinstance(answer, openai.APIError)]
            for reference, answer in zip(references, answers):
                if answer in refused:
                    self.assertEqual(answer.code, "no_room")
                else:
                    self.assertEqual(answer.seen, reference.seen)
            self.assertGreaterEqual(len(answers) - len(refused), 4)
            print(f"{len(refused)} of {len(answers)} refused")


class Usage:
    """What the processes of a deployment hold: resident memory, descriptors, files in /dev/shm."""

    def __init__(self, running):
        self.shm = len(SHARED_MEMORY.files())
        self.rss_mib, self.descriptors = {}, {}
        for process, pid in running.pids.items():
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                self.rss_mib[process] = next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024
            self.descriptors[process] = len(os.listdir(f"/proc/{pid}/fd"))

    def __str__(self):
        rss = ", ".join(f"{process} {size:.1f}" for process, size in self.rss_mib.items())
        return f"MiB {rss}; descriptors {self.descriptors}; {self.shm} in /dev/shm"


class Soak:
    """Clients that hold short conversations, some of which they leave in the middle, one after the other up to `turns`."""
    CLIENTS = 4
    QUESTIONS = [[{"role": "user", "content": f"question {number}"}] for number in range(5)]
    HOW = {"max_tokens": 30, "temperature": 1}

    def __init__(self, running, turns):
        self.running, self.turns = running, turns
        self.references = [stream(running, question, **self.HOW).seen for question in self.QUESTIONS]
        self.lock, self.begun, self.serving = threading.Lock(), 0, None
        self.count, self.failures = collections.Counter(), []
        self.threads = [threading.Thread(target=self._talk) for _ in range(self.CLIENTS)]
        for thread in self.threads:
            thread.start()

    def join(self):
        for thread in self.threads:
            thread.join()

    def _talk(self):
        with self.running.client() as client:
            while (number := self._next()) < self.turns and not self.failures:
                try:
                    (self._leave if number % 10 < 3 else self._stay)(client, number)
                except Exception as broken:  # told by the thread of the test
                    self.failures.append((number, repr(broken)))

    def _next(self):
        with self.lock:
            self.begun += 1
            return self.begun - 1

    def _leave(self, client, number):
        """Goes away at the first tokens of a long answer."""
        with client.chat.completions.create(model="toy", messages=self.QUESTIONS[number % 5], max_tokens=2000, stream=True,
                                            extra_body={"ignore_eos": True}) as chunks:
            for _, chunk in zip(range(1 + number % 4), chunks):
                self.count["chunks"] += len(chunk.choices)
        self.count["left"] += 1

    def _stay(self, client, number):
        def seen(answer):
            self.serving = answer.nodes[-1] if answer.nodes and not answer.finish else None

        answer = ask(client, self.QUESTIONS[number % 5], f"conversation {number}", seen, **self.HOW)
        if answer.seen != self.references[number % 5]:
            self.failures.append((number, answer.seen))
        self.count["answered"] += 1
        self.count["taken over"] += answer.end["failovers"] > 0


class Leaks(Case):
    TURNS = int(os.environ.get("BATON_SOAK_TURNS", "600"))
    FAILOVERS = int(os.environ.get("BATON_SOAK_FAILOVERS", "6"))
    # A gateway remembers some thousands of conversations, of a kilobyte or so each; allocators keep some of what was freed.
    MORE_MIB = 4 + TURNS / 1000

    def test_case_85_nothing_is_left_of_short_sessions(self):
        with Deployment(defaults=PATIENT, engine='{ type = "toy", sessions = 24, decode_us = 1000 }') as running:
            self.soak(running, self.TURNS // 4, self.FAILOVERS // 3)
            warm = self.at_rest(running)
            self.soak(running, self.TURNS - self.TURNS // 4, self.FAILOVERS - self.FAILOVERS // 3)
            end = self.at_rest(running)
            print(f"warm: {warm}\nend:  {end}")
            for process, before in warm.descriptors.items():
                self.assertLessEqual(end.descriptors[process], before, f"descriptors of {process}")
            self.assertEqual(warm.shm, end.shm)
            for process, before in warm.rss_mib.items() if not SANITIZED else ():
                self.assertLess(end.rss_mib[process], before + self.MORE_MIB, process)

    def soak(self, running, turns, failovers):
        soak = Soak(running, turns)
        try:
            for number in range(failovers):
                self.lose_one(running, soak, (number + 1) * turns // (failovers + 1))
        finally:
            soak.join()
        self.assertEqual(soak.failures, [])
        print(dict(soak.count))

    def lose_one(self, running, soak, after):
        """Kills whichever node is in the middle of an answer once so many turns have begun."""
        lost = []
        wait_until(lambda: soak.failures or soak.begun >= after and (lost.append(soak.serving) or lost[-1]), 120, "a turn")
        if lost and lost[-1]:
            running.signal(lost[-1], signal.SIGKILL)
            running.start_again(lost[-1])

    def at_rest(self, running):
        def rests():
            staging = [node["figures"]["staging"] for node in running.status()["nodes"]]
            metrics = running.get("/metrics").decode().splitlines()
            return ("baton_gateway_open_turns 0" in metrics and "baton_http_connections 1" in metrics and
                    not any(figures["lent"] + figures["quarantined"] for figures in staging))

        wait_until(rests, 10, "no turn, no connection but this one, no staging memory in use")
        return Usage(running)


if __name__ == "__main__":
    unittest.main()
