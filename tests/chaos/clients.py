"""Clients that talk all the time, with the official library, and compare each answer with what it must be."""
import dataclasses
import threading
import time

from support.answers import Answer, ask

TOPICS = ("Tell me of the sea.", "Why do lamps go out?")
TURNS = ("", "Go on.", "And how does it end?")
PAUSE_KEPT_S = 0.02
LEARNING_ATTEMPTS = 5
PAUSE_AFTER_ERROR_S = 0.5


@dataclasses.dataclass(frozen=True)
class Manner:
    """How a client asks."""
    name: str
    how: dict
    named: bool = True  # or recognised by its messages


MANNERS = (
    Manner("greedy", {"max_tokens": 120}),
    Manner("sampled", {"max_tokens": 90, "temperature": 0.9, "top_p": 0.95, "seed": 11}),
    Manner("logprobs", {"max_tokens": 60, "temperature": 0.7, "seed": 12, "logprobs": True, "top_logprobs": 2}),
    Manner("unnamed", {"max_tokens": 80, "temperature": 1, "seed": 13}, named=False),
    Manner("plain", {"max_tokens": 60, "stream": False}),
)


def question(manner, topic, turn, answers):
    """The messages of a turn, after the answers to those before it."""
    messages = [{"role": "system", "content": f"You speak to {manner.name}."}, {"role": "user", "content": TOPICS[topic]}]
    for answer, words in zip(answers, TURNS[1:turn + 1]):
        messages += [{"role": "assistant", "content": answer.text}, {"role": "user", "content": words}]
    return messages


def flaws(reference, answer):
    """What is wrong with an answer, in words; nothing if a client cannot tell it from the undisturbed one."""
    found = []
    for what, wanted, got in zip(("text", "finish reason", "usage", "log probabilities"), reference.seen, answer.seen):
        if wanted != got:
            found.append(f"another {what}: {got!r:.300} instead of {wanted!r:.300}")
    if answer.end is None or answer.usage is None:
        return [*found, "an end without usage or trace"]
    begin, tokens = answer.usage
    for position, length in zip(answer.positions, answer.lengths):  # a token of the toy engine is a character
        if position != begin + length - 1:
            found.append(f"{length} tokens up to position {position} where {begin} comes next")
        begin = position + 1
    if begin != sum(answer.usage):
        found.append(f"{tokens} tokens after {answer.usage[0]}, the last at position {begin - 1}")
    return found


@dataclasses.dataclass
class Violation:
    at: float
    client: str
    kind: str  # "wrong answer" or "client error"
    what: str


class Client(threading.Thread):
    """Holds one conversation after the other until it is told to stop. Its figures may be read at any time."""

    def __init__(self, cluster, manner, report):
        super().__init__(name=manner.name, daemon=True)
        self.cluster, self.manner, self.report = cluster, manner, report
        self.references = {}
        self.stopping = threading.Event()
        self.turns = self.tokens = self.errors = self.wrong = self.taken_over = 0
        self.last_word = time.monotonic()
        self.serving = None
        self.pauses = []  # (from, to), those worth keeping

    def learn(self):
        """Asks everything once while nothing is disturbed; what is answered is the reference from then on."""
        with self.cluster.client() as client:
            for topic in range(len(TOPICS)):
                self.references[topic] = self._learn_topic(client, topic)

    def _learn_topic(self, client, topic):
        """A busy machine may make a live node look dead; what was answered then is no reference, and is asked again."""
        for attempt in range(LEARNING_ATTEMPTS):
            answers = []
            for turn in range(len(TURNS)):
                answers.append(self._ask(client, topic, turn, answers, f"reference {self.name} {topic} {attempt}"))
            if not any(answer.end["failovers"] for answer in answers):
                break
        found = [flaw for answer in answers for flaw in self._flaws_of_reference(answer)]
        assert not found, f"the reference of {self.name} is flawed: {found}"
        return answers

    @staticmethod
    def _flaws_of_reference(answer):
        found = flaws(answer, answer)
        if answer.end["failovers"]:
            found.append("a failover while nothing is disturbed")
        if answer.finish != "length" or answer.usage[1] != len(answer.text):
            found.append(f"not a whole answer: {answer.finish}, {answer.usage}")
        return found

    def run(self):
        with self.cluster.client() as client:
            number = 0
            while not self.stopping.is_set():
                self._converse(client, number % len(TOPICS), f"{self.name} {number}")
                number += 1

    def _converse(self, client, topic, session):
        for turn in range(len(TURNS)):
            if self.stopping.is_set():
                return
            wanted = self.references[topic]
            try:
                answer = self._ask(client, topic, turn, wanted, session)
            except Exception as failure:  # whatever it is, a client has seen it
                self.errors += 1
                self.stopping.wait(PAUSE_AFTER_ERROR_S)
                return self._tell("client error", f"{session!r} turn {turn}: {type(failure).__name__}: {failure}")
            finally:
                self.serving = None
            found = flaws(wanted[turn], answer)
            self.turns += 1
            self.tokens += answer.usage[1] if answer.usage else 0
            self.taken_over += bool(answer.end and answer.end["failovers"])
            if found:
                self.wrong += 1
                return self._tell("wrong answer", f"{session!r} turn {turn}: {'; '.join(found)}")

    def _tell(self, kind, what):
        self.report(Violation(time.monotonic(), self.name, kind, what))

    def _ask(self, client, topic, turn, answers, session):
        before = [None]

        def seen(answer: Answer):
            now = time.monotonic()
            if before[0] and now - before[0] >= PAUSE_KEPT_S:
                self.pauses.append((before[0], now))
            before[0] = self.last_word = now
            self.serving = answer.nodes[-1] if answer.nodes else None

        answer = ask(client, question(self.manner, topic, turn, answers), session if self.manner.named else None, seen,
                     **self.manner.how)
        self.last_word = time.monotonic()
        return answer

    def longest_pause(self, begin, end):
        """The longest pause of its streams that has a part in a span of time, in seconds; 0 if none is worth mentioning."""
        return max((to - since for since, to in list(self.pauses) if to > begin and since < end), default=0)

    def forget_pauses(self, before):
        self.pauses = [pause for pause in self.pauses if pause[1] >= before]
