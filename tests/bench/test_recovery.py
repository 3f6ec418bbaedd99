"""What a failover and its preparation cost with the real model, each figure beside its peer or its limit.

Prints the whole outcome of each command, for docs/measurements.md.
"""
import json
import os
import statistics
import subprocess
import unittest

BINARY = os.environ["BATON_BINARY"]
RUNS = 5


def outcome(*arguments):
    ended = subprocess.run([BINARY, *arguments, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    print("\nbaton", *arguments, "--json:", ended.stdout.strip())
    return json.loads(ended.stdout)


class Recovery(unittest.TestCase):
    def demos(self, how):
        runs = [outcome("demo", "--kill", how) for _ in range(RUNS)]
        for run in runs:
            self.assertTrue(run["equal"])
            self.assertLessEqual(run["recomputed_tokens"], run["lag_tokens"])
            self.assertEqual(run["wire_bytes_per_token"], run["kv_bytes_per_token"])
        middle = {name: statistics.median(run[name] for run in runs)
                  for name in ("gap_ms", "decode_ms_p50", "reprefill_over_gap")}
        print(how, middle)
        return middle

    def test_a_killed_primary(self):
        middle = self.demos("kill")
        self.assertLess(middle["gap_ms"], 100 + 2 * middle["decode_ms_p50"])

    def test_a_frozen_primary(self):
        middle = self.demos("stop")
        self.assertGreater(middle["reprefill_over_gap"], 1)

    def test_a_primary_cut_off(self):
        middle = self.demos("cut")
        self.assertGreater(middle["reprefill_over_gap"], 1)

    def test_the_gap_does_not_grow_with_the_context(self):
        gaps = outcome("bench", "gap", "--losses", "7")
        self.assertTrue(gaps["equal"])
        self.assertLessEqual(gaps["gap_ratio_2k_to_500"], 1.2)

    def test_replication_is_nearly_free_for_decode(self):
        self.assertLessEqual(outcome("bench", "overhead")["overhead_percent"], 3)


if __name__ == "__main__":
    unittest.main()
