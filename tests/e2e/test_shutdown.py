"""Told to end, each process ends within five seconds, whatever state its peers are in."""
import os
import signal
import subprocess
import tempfile
import time
import unittest

from harness import BINARY, Case, Deployment, deployment_text, free_port, is_alive, stream, wait_until

LIMIT_S = 5


class Frozen(Case):
    def test_each_process_while_its_peers_are_frozen(self):
        for process in ("control", "edge", "a", "b"):
            with self.subTest(process), Deployment(nodes=("a", "b")) as running:
                stream(running, [{"role": "user", "content": "hello"}], max_tokens=5)
                others = [name for name in running.pids if name != process]
                for other in others:
                    running.signal(other, signal.SIGSTOP)
                with self.within(LIMIT_S, process):
                    running.signal(process, signal.SIGTERM)
                    wait_until(lambda: not is_alive(running.pids[process]), LIMIT_S, f"{process} gone")
                for other in others:
                    running.signal(other, signal.SIGKILL)

    def test_the_supervisor_while_all_others_are_frozen(self):
        with Deployment(nodes=("a", "b")) as running:
            for process in running.pids:
                running.signal(process, signal.SIGSTOP)
            _, seconds = running.stop()
            self.assertLess(seconds, LIMIT_S)

    def test_at_once_after_a_failover(self):
        for number in (signal.SIGKILL, signal.SIGSTOP):
            with self.subTest(number), Deployment() as running:
                lost = []

                def seen(answer):
                    if len(answer.positions) == 20 and not lost:
                        lost.append(answer.nodes[-1])
                        running.signal(lost[0], number)

                stream(running, [{"role": "user", "content": "hello"}], max_tokens=60, seen=seen)
                if number == signal.SIGSTOP:
                    running.signal(lost[0], signal.SIGCONT)
                _, seconds = running.stop()
                self.assertLess(seconds, 2)

    def test_children_end_with_a_killed_supervisor(self):
        with Deployment(nodes=("a", "b")) as running:
            running.process.kill()
            wait_until(lambda: not any(map(is_alive, running.pids.values())), LIMIT_S, "all children gone")


class StartUp(Case):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory(prefix="baton-e2e-")
        self.addCleanup(self.folder.cleanup)
        self.file = os.path.join(self.folder.name, "deployment.toml")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(deployment_text(free_port(), free_port(), nodes=("a", "b")))

    def start(self, process):
        started = subprocess.Popen([BINARY, "run", self.file, "--process", process, "--log-level", "off"],
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(started.wait)
        self.addCleanup(started.stdout.close)
        self.addCleanup(started.kill)
        return started

    def end(self, started, what):
        started.send_signal(signal.SIGTERM)
        try:
            started.wait(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.fail(f"{what}: still there after {LIMIT_S} s")
        return started.returncode

    def test_at_any_moment_of_the_start(self):
        for process in ("control", "edge", "a"):
            for delay_s in (0.03, 0.1, 0.3):  # a signal before the first line of main kills as it does any program
                started = self.start(process)
                time.sleep(delay_s)
                self.assertIn(self.end(started, process), (0, -signal.SIGTERM))

    def test_without_an_orchestrator(self):
        for process in ("edge", "a"):
            started = self.start(process)
            self.assertTrue(started.stdout.readline().startswith("ready"))
            time.sleep(0.3)
            self.assertEqual(self.end(started, process), 0)

    def test_while_connecting_to_a_frozen_orchestrator(self):
        control = self.start("control")
        self.assertTrue(control.stdout.readline().startswith("ready"))
        control.send_signal(signal.SIGSTOP)
        for process in ("edge", "a"):
            started = self.start(process)
            self.assertTrue(started.stdout.readline().startswith("ready"))
            time.sleep(0.3)
            self.assertEqual(self.end(started, process), 0)


if __name__ == "__main__":
    unittest.main()
