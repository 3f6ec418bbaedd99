"""A request that kills the node that runs it: it is given up, its neighbours and the rest of the nodes live."""
import collections
import signal
import threading

import openai

from harness import PATIENT, Case, Deployment, is_alive, stream, wait_until

ENGINE = '{ type = "toy", sessions = 12, decode_us = 2000, poison = 7 }'
POISON = [{"role": "user", "content": "hello \a"}]
QUESTION = [{"role": "user", "content": "tell me of the sea"}]


class Poison(Case):
    def alive(self, running):
        return [node for node in running.nodes if is_alive(running.pids[node])]

    def check_refused(self, running, streaming):
        with running.client() as client, self.assertRaises(openai.APIError) as refused:
            answer = client.chat.completions.create(model="toy", messages=POISON, stream=streaming, max_tokens=5)
            for _ in answer if streaming else ():
                pass
        self.assertEqual(refused.exception.code, "poisoned")

    def test_two_nodes_die_of_it_and_the_third_does_not(self):
        for streaming in (True, False):
            with self.subTest(streaming=streaming), Deployment(engine=ENGINE, defaults=PATIENT) as running:
                reference = stream(running, QUESTION, "reference", max_tokens=600)
                answers = {}
                asker = threading.Thread(
                    target=lambda: answers.update(neighbour=stream(running, QUESTION, "neighbour", max_tokens=600)))
                asker.start()
                self.check_refused(running, streaming)
                self.assertEqual(len(self.alive(running)), 1)
                asker.join()
                self.assertEqual(answers["neighbour"].seen, reference.seen)
                # Asked again it is refused before anybody runs it; others are served.
                self.check_refused(running, streaming)
                self.assertEqual(stream(running, QUESTION, "later", max_tokens=600).seen, reference.seen)
                self.assertEqual(len(self.alive(running)), 1)

    def gets_on(self, running, rows):
        """Waits until no group is a dead node's, then until one that lives has evaluated so many rows more; which."""
        def owned():
            held = collections.Counter()
            for group in running.status()["groups"]:
                held[group["owner"]] += group["synced_tokens"]
            return held

        wait_until(lambda: set(owned()) <= set(self.alive(running)), 5, "the living own all")
        before, found = owned(), []

        def look():
            found[:] = [node for node, held in owned().items() if held >= before[node] + rows]
            return found

        wait_until(look, 10, "somebody gets on")
        return found[0]

    def test_two_losses_during_long_prompts_are_no_poison(self):
        """Each owner gets on with them before it is lost."""
        prompts = [[{"role": "user", "content": f"Town {number} has a mill, a church and a river. " * 60}] for number in range(3)]
        with Deployment(engine='{ type = "toy", sessions = 12, decode_us = 1000 }', defaults=PATIENT) as running:
            references = [stream(running, prompt, max_tokens=5) for prompt in prompts]
            answers = {}
            askers = [threading.Thread(target=lambda of=number: answers.update(
                {of: stream(running, prompts[of], f"disturbed {of}", max_tokens=5)})) for number in range(3)]
            for asker in askers:
                asker.start()
            for _ in range(2):
                running.signal(self.gets_on(running, 1280), signal.SIGKILL)
            for asker in askers:
                asker.join()
            self.assertEqual([answers[number].seen for number in range(3)], [it.seen for it in references])

    def test_an_engine_that_fails_takes_its_node_with_it(self):
        """The nodes say why and return 1; one that shares its process with the gateway leaves that alone."""
        engine = '{ type = "toy", sessions = 12, decode_us = 2000, fault = 7 }'
        with Deployment(engine=engine, defaults=PATIENT, more={"c": 'process = "edge"'}) as running:
            for node in ("a", "b"):
                running.signal(node, signal.SIGKILL)
                wait_until(lambda of=node: not is_alive(running.pids[of]), 5, f"{node} has ended")
                running.start_again(node)
            self.check_refused(running, streaming=False)
            failed = [node for node in running.nodes if f"deployment.toml: actor.{node}: the device is lost" in running.logged()]
            self.assertEqual(len(failed), 2)
            for node, process in zip(("a", "b"), running.restarted):
                if node in failed:
                    self.assertEqual(process.wait(timeout=5), 1)
            self.assertTrue(is_alive(running.pids["edge"]))
            self.assertEqual(len(stream(running, QUESTION, "after", max_tokens=20).positions), 20)

    def test_it_is_run_again_for_ever_if_so_configured(self):
        with Deployment(engine=ENGINE, defaults=PATIENT, more={"edge": "poison_after = 0"}) as running:
            with running.client() as client, self.assertRaises(openai.APIError) as failed:
                client.chat.completions.create(model="toy", messages=POISON, max_tokens=5)
            self.assertEqual(failed.exception.code, "unavailable")
            wait_until(lambda: not self.alive(running), 5, "all nodes have died of it")
