"""`baton demo` and `baton bench` as their users run them, with the toy engine; and nothing left of them, however they end."""
import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from harness import BINARY, SHARED_MEMORY, Case, is_alive, run, wait_until

TOY = ("--engine", "toy", "--decode-us", "2000")


def descendants(pid):
    found = []
    for line in subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout.splitlines():
        child, parent = map(int, line.split())
        if parent == pid:
            found += [child, *descendants(child)]
    return found


def namespaces():
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout


class Demo(Case):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory(prefix="baton-e2e-")
        self.addCleanup(self.folder.cleanup)
        self.environment = {**os.environ, "TMPDIR": self.folder.name}
        self.before = SHARED_MEMORY.files()

    def check_nothing_left(self, pids=()):
        wait_until(lambda: not any(map(is_alive, pids)), 5, f"none of {pids} alive")
        wait_until(lambda: not glob.glob(self.folder.name + "/*"), 5, f"no temporary folder: {os.listdir(self.folder.name)}")
        self.assertEqual(SHARED_MEMORY.left(self.before), set())

    def demo(self, *arguments):
        code, out, said = run("demo", *TOY, *arguments, timeout_s=120, env=self.environment)
        self.check_nothing_left()
        return code, out, said

    def check_outcome(self, *arguments, **wanted):
        code, out, said = self.demo("--json", *arguments)
        self.assertEqual(code, 0, out + said)
        outcome = json.loads(out)
        self.assertEqual({**outcome, **wanted}, outcome)
        self.assertTrue(outcome["equal"])
        self.assertGreaterEqual(outcome["failovers"], 1)  # a busy machine may make a live node look dead as well
        self.assertGreater(outcome["gap_ms"], 0)
        self.assertGreater(outcome["reprefill_ms"], outcome["gap_ms"] / 10)
        self.assertLessEqual(outcome["recomputed_tokens"], outcome["lag_tokens"] + 8)
        self.assertGreater(outcome["kv_bytes_per_token"], 0)
        self.assertGreaterEqual(outcome["wire_bytes_per_token"], outcome["kv_bytes_per_token"])
        self.assertGreater(outcome["tokens_differing_after_reprefill"], 0)  # other batches, as in a real model
        return outcome

    def test_kill(self):
        self.check_outcome("--tokens", "40", "--context", "400", tokens=40, killed_at=20, kill="kill")

    def test_stop(self):
        self.check_outcome("--kill", "stop", kill="stop", zombie_harmless=True)

    def test_planned_move(self):
        self.check_outcome("--kill", "term", "--losses", "2", kill="term")

    def test_three_losses_in_one_conversation(self):
        outcome = self.check_outcome("--losses", "3")
        self.assertEqual(len(outcome["gaps_ms"]), 3)
        self.assertEqual(outcome["gap_ms"], sorted(outcome["gaps_ms"])[1])

    def test_sampled_with_a_longer_interval(self):
        self.check_outcome("--temperature", "0.9", "--seed", "3", "--every", "8", "--kill-after", "37", killed_at=37)

    def test_shared_memory(self):
        outcome = self.check_outcome("--transport", "ucx-shm")
        self.assertNotIn("tcp", outcome["transport"])

    def test_plain_sockets(self):
        self.assertEqual(self.check_outcome("--transport", "tcp")["transport"], "tcp")

    def test_commit_rules(self):
        for rule in ("async", "quorum:1", "strict"):
            with self.subTest(rule):
                self.check_outcome("--commit", rule, commit=rule)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("ip"), "needs root and iproute2")
    def test_cut(self):
        before = namespaces()
        self.check_outcome("--kill", "cut", kill="cut", zombie_harmless=True)
        self.assertEqual(namespaces(), before)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root, to give it up")
    def test_cut_without_root(self):
        before = namespaces()
        os.chmod(self.folder.name, 0o777)
        ended = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", BINARY, "demo", *TOY, "--kill",
                                "cut"], capture_output=True, text=True, check=False, env=self.environment, timeout=60)
        if ended.returncode == 126 or "ermission denied" in ended.stderr:
            self.skipTest("nobody may not run the program here")
        self.assertEqual(ended.returncode, 3)
        self.assertIn("needs root", ended.stderr)
        self.assertEqual(namespaces(), before)

    def test_what_people_see(self):
        code, out, said = self.demo("--tokens", "32")
        self.assertEqual(code, 0, out + said)
        for words in ("killed (SIGKILL)", "equal to the undisturbed run, all 32 tokens", "gap at the client"):
            self.assertIn(words, out)
        self.assertNotIn("\033", out + said)
        self.assertNotIn("\r", out + said)

    def interrupted(self, number, *arguments):
        """Starts a long demo, ends it by a signal in the middle, and returns its exit code."""
        command = [BINARY, "demo", "--engine", "toy", "--decode-us", "20000", "--tokens", "2000", *arguments]
        started = subprocess.Popen(SHARED_MEMORY.command(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=self.environment)
        self.addCleanup(started.kill)
        wait_until(lambda: len(descendants(started.pid)) >= 6, 20, "five processes and the cleaner")
        time.sleep(1)
        pids = descendants(started.pid)
        started.send_signal(number)
        with self.within(8, "the end"):
            code = started.wait(timeout=20)
        self.check_nothing_left(pids)
        return code

    def test_interrupted(self):
        self.assertEqual(self.interrupted(signal.SIGINT), 130)
        self.assertEqual(self.interrupted(signal.SIGTERM), 130)

    def test_killed(self):
        self.assertEqual(self.interrupted(signal.SIGKILL), -signal.SIGKILL)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("ip"), "needs root and iproute2")
    def test_killed_with_namespaces(self):
        before = namespaces()
        self.interrupted(signal.SIGKILL, "--kill", "cut")
        self.assertEqual(namespaces(), before)

    def test_overhead(self):
        code, out, said = run("bench", "overhead", *TOY, "--rounds", "3", "--tokens", "32", "--json", timeout_s=120,
                              env=self.environment)
        self.assertEqual(code, 0, said)
        measured = json.loads(out)
        self.assertGreater(measured["decode_ms_without"], 1.9)
        self.assertLess(abs(measured["overhead_percent"]), 200)  # a busy machine; that it measures at all
        self.check_nothing_left()


if __name__ == "__main__":
    unittest.main()
