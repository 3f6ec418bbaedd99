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

    def first_turns(self, running, named=True, **how):
        """One turn each; the answers, and what the next turn says had nothing been lost."""
        answers, references = {}, {}
        for name in self.NAMES:
            answers[name] = stream(running, ask_of(name), name if named else None, **how)
            twin = stream(running, ask_of(name), name + "'s twin", **how)
            self.assertEqual(answers[name].seen, twin.seen)
            references[name] = stream(running, go_on(ask_of(name), twin), name + "'s twin", **how)
        return answers, references

    def second_turns(self, running, answers, references, named=True, **how):
        """All of them as if nothing had happened; how many tokens each has not computed again."""
        cached = {}
        for name in self.NAMES:
            again = stream(running, go_on(ask_of(name), answers[name]), name if named else None, **how)
            self.assertEqual(references[name].seen, again.seen)
            cached[name] = again.end["cached_tokens"]
        return cached

    def check_all_restored(self, answers, cached):
        for name in self.NAMES:  # but for the last token, which has no row before the next is evaluated
            self.assertEqual(cached[name], sum(answers[name].usage) - 1)

    def test_case_75_cold_start_with_the_records(self):
        with self.deployment(store=os.path.join(self.home, "state.db")) as running:
            answers, references = self.first_turns(running)
            self.await_archived(running, 2 * len(self.NAMES))
            loses_everything(running)
        with self.deployment(store=os.path.join(self.home, "state.db")) as running:
            self.check_all_restored(answers, self.second_turns(running, answers, references))

    def test_case_75_cold_start_from_nothing_else(self):
        how = {"temperature": 0.8, "top_p": 0.9, "seed": 7}
        with self.deployment() as running:
            answers, references = self.first_turns(running, named=False, **how)
            self.await_archived(running, 2 * len(self.NAMES))
            loses_everything(running)
        with self.deployment() as running:
            cached = self.second_turns(running, answers, references, named=False, **how)
            self.check_all_restored(answers, cached)

    def test_what_is_damaged_or_missing_is_computed_again(self):
        with self.deployment() as running:
            answers, references = self.first_turns(running)
            self.await_archived(running, 2 * len(self.NAMES))
            loses_everything(running)
        self.assertGreater(len(self.objects("rows")), 2 * len(self.NAMES))
        for number, path in enumerate(sorted(self.objects("rows"))):
            with open(path, "r+b") as file:
                if number % 2:
                    file.truncate(os.path.getsize(path) // 2)
                else:
                    first = file.read(1)
                    file.seek(0)
                    file.write(bytes([first[0] ^ 1]))
        with self.deployment() as running:
            cached = self.second_turns(running, answers, references)
            self.assertEqual(set(cached.values()), {0})

    def test_a_store_that_cannot_be_written_holds_nobody_up(self):
        reference = None
        with self.deployment() as running:
            shutil.rmtree(self.archive)
            with open(self.archive, "w", encoding="utf-8") as file:
                file.write("in the way")
            reference = stream(running, ask_of("ann"), "ann")
            wait_until(lambda: any(node["figures"]["archive"]["failures"] for node in running.status()["nodes"]), 10,
                       "the store fails")
            again = stream(running, ask_of("ann"), "again")
            self.assertEqual(reference.seen, again.seen)
            os.remove(self.archive)  # it is mended
            os.mkdir(self.archive)
            wait_until(lambda: self.objects("manifests"), 30, "what waited is written")


if __name__ == "__main__":
    unittest.main()
