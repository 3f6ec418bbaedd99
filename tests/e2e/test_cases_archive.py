"""Cases of the field about conversations that outlive every process, by number: 75."""
import os
import shutil
import signal
import tempfile
import unittest

from harness import Case, Deployment, stream, wait_until

SYSTEM = {"role": "system", "content": "You keep a lighthouse, and its book."}


def ask_of(name):
    return [SYSTEM, {"role": "user", "content": f"Tell {name} of the sea, at length, and of the lamp."}]


def go_on(messages, answer):
    return messages + [{"role": "assistant", "content": answer.text}, {"role": "user", "content": "And then?"}]


def loses_everything(running):
    """kill -9 of every process at once."""
    running.process.send_signal(signal.SIGSTOP)  # or it would end the others its own way
    for pid in running.pids.values():
        os.kill(pid, signal.SIGKILL)
    running.process.kill()
    running.process.wait()


class ColdStart(Case):
    """Case 75: kill -9 of all processes. What is left is the object store, and maybe the orchestrator's records."""
    NAMES = ("ann", "ben", "cleo")

    def setUp(self):
        super().setUp()
        self.home = tempfile.mkdtemp(prefix="baton-archive-")
        self.addCleanup(shutil.rmtree, self.home)
        self.archive = os.path.join(self.home, "archive")

    def deployment(self, **how):
        return Deployment(archive=self.archive, **how)

    def objects(self, kind):
        return [os.path.join(at, name) for at, _, names in os.walk(self.archive) for name in names
                if f"/{kind}" in at and not name.startswith(".")]

    def await_archived(self, running, conversations):
        def all_there():
            nodes = running.status()["nodes"]
            archives = [node["figures"]["archive"] for node in nodes]
            return (all(it["up"] and it["waiting_bytes"] == 0 and it["lag_tokens"] == 0 for it in archives)
                    and len(self.objects("manifests")) >= conversations
                    and len(self.objects("conversations")) >= conversations)

        wait_until(all_there, 10, "everything is in the archive")

    def first_turns(self, running, **how):
        """One turn each; the answers, and what the next turn says had nothing been lost."""
        answers, references = {}, {}
        for name in self.NAMES:
            answers[name] = stream(running, ask_of(name), name, **how)
            twin = stream(running, ask_of(name), name + "'s twin", **how)
            self.assertEqual(answers[name].seen, twin.seen)
            references[name] = stream(running, go_on(ask_of(name), twin), name + "'s twin", **how)
        return answers, references

    def check_second_turns(self, running, answers, references, named=True, **how):
        for name in self.NAMES:
            again = stream(running, go_on(ask_of(name), answers[name]), name if named else None, **how)
            self.assertEqual(references[name].seen, again.seen)
            # All but what the new turn begins with came out of the archive.
            history = sum(answers[name].usage)
            self.assertGreaterEqual(again.end["cached_tokens"], history - 2, again.end)
            self.assertLessEqual(again.end["evaluated_tokens"], references[name].end["evaluated_tokens"] + 2)

    def test_case_75_cold_start_with_the_records(self):
        with self.deployment(store=os.path.join(self.home, "state.db")) as running:
            answers, references = self.first_turns(running)
            self.await_archived(running, 2 * len(self.NAMES))
            loses_everything(running)
        with self.deployment(store=os.path.join(self.home, "state.db")) as running:
            self.check_second_turns(running, answers, references)

    def test_case_75_cold_start_from_nothing_else(self):
        how = {"temperature": 0.8, "top_p": 0.9, "seed": 7}
        with self.deployment() as running:
            answers, references = self.first_turns(running, **how)
            self.await_archived(running, 2 * len(self.NAMES))
            loses_everything(running)
        with self.deployment() as running:
            self.check_second_turns(running, answers, references, **how)


if __name__ == "__main__":
    unittest.main()
