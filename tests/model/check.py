#!/usr/bin/env python3
"""Checks the model of the protocol, session.pml, with spin: every configuration holds in every reachable state, and reaches the
state that it is about; every mutant (a rule switched off) is caught. Needs spin, gcc and only Python's standard library.

    python3 tests/model/check.py               the set for every change: minutes on one core, at most 4 GB
    python3 tests/model/check.py --long        larger sizes as well
    python3 tests/model/check.py --only NAME   one configuration or mutant
    python3 tests/model/check.py --only NAME --keep DIRECTORY
                                               leaves the checker there and, if it found something, the trail
    python3 tests/model/check.py --list        the names

Exit status: 0 if all is as expected, 1 if not, 77 if there is no spin or gcc.
"""
import argparse
import concurrent.futures
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = "session.pml"
SKIPPED = 77
MEMORY_MB = 3800
MEMORY_LONG_MB = 5800
DEPTH = 2000000
LONGEST_S = 900
LONGEST_LONG_S = 3600


@dataclasses.dataclass(frozen=True)
class Case:
    """One run of the checker: the defines of session.pml, and what must come out."""
    name: str
    defines: str
    expected: str  # "holds": no error in any state; "caught": an error
    why: str

    @property
    def live(self):
        return "LIVE" in self.defines.split()


def holds(name, defines, why):
    return Case(name, defines, "holds", why)


# --- the tables -------------------------------------------------------------------------------------------------------

CONFIGURATIONS = (
    holds("async", "TOKENS=3 EPOCHS=3", "three owners; the gateway's log is the only second copy"),
    holds("async-crash", "TOKENS=2 EPOCHS=3 CRASHES=1", "a crash with loss of memory"),
    holds("async-late", "TOKENS=2 EPOCHS=2 LATE=2", "two messages are late at a time"),
    holds("async-turns", "TOKENS=2 EPOCHS=2 GATEWAYS=1 CANCELS=1", "the gateway is lost, the client ends a turn"),
    holds("rows", "ROWS TOKENS=2 EPOCHS=3", "rows follow the log"),
    holds("exports", "EXPORTS ROWS TOKENS=1 EPOCHS=3", "rows leave the engine before they are sent"),
    holds("semi", "SEMI TOKENS=1 EPOCHS=3", "output commit and the in-sync set under three owners"),
    holds("semi-two", "SEMI TOKENS=2 EPOCHS=2", "two tokens"),
    holds("semi-crash", "SEMI TOKENS=1 EPOCHS=2 CRASHES=1", "incarnations"),
    holds("semi-late", "SEMI TOKENS=1 EPOCHS=2 LATE=2", "two messages are late at a time"),
    holds("semi-gateway", "SEMI TOKENS=1 EPOCHS=2 GATEWAYS=1", "the gateway is lost"),
    holds("semi-cancel", "SEMI TOKENS=1 EPOCHS=2 CANCELS=1", "the client ends a turn, the owner cuts its log"),
    holds("semi-rows", "SEMI ROWS TOKENS=1 EPOCHS=2", "rows and the in-sync set"),
    holds("leases", "SEMI LEASES TOKENS=1 EPOCHS=2", "INV11"),
    holds("drain", "DRAINS=1 ROWS TOKENS=1 EPOCHS=2", "INV17: a planned move, and a wrong suspicion at any moment"),
    holds("liveness-crash", "LIVE SEMI TOKENS=1 EPOCHS=2 CRASHES=1 SUSPICIONS=0", "INV14 after a crash, for good or not"),
    holds("liveness-suspicion", "LIVE SEMI TOKENS=1 EPOCHS=2", "INV14 after a wrong suspicion"),
)

LONG = (
    holds("long-drain-crash", "DRAINS=1 ROWS TOKENS=1 EPOCHS=2 CRASHES=1", "a crash during a planned move"),
    holds("long-drain-semi", "DRAINS=1 SEMI ROWS TOKENS=1 EPOCHS=2", "a planned move with an in-sync set"),
    holds("long-liveness", "LIVE SEMI TOKENS=1 EPOCHS=3 CRASHES=1", "a crash and a wrong suspicion"),
    holds("long-semi", "SEMI TOKENS=2 EPOCHS=3", "two tokens, three owners"),
    holds("long-semi-crash", "SEMI TOKENS=2 EPOCHS=2 CRASHES=1", "a crash, two tokens"),
)


def mutant(name, defines, why):
    return Case(name, f"{defines} M_{name}", "caught", why)


MUTANTS = (
    mutant("GATEWAY_EPOCH", "TOKENS=2 EPOCHS=2", "O: the gateway checks the epoch"),
    mutant("SEAL", "TOKENS=2 EPOCHS=2", "P: the gateway is sealed before its log is adopted"),
    mutant("ADOPT_LOG", "TOKENS=2 EPOCHS=2", "P: the gateway's log is adopted"),
    mutant("ADOPT_ROWS", "ROWS TOKENS=1 EPOCHS=3", "P: rows are cut with the log that is adopted"),
    mutant("STANDBY_ROWS", "ROWS TOKENS=1 EPOCHS=2", "E: rows are cut with a standby's log"),
    mutant("GENERATION", "EXPORTS ROWS TOKENS=1 EPOCHS=3", "cut rows: an export from before a cut is void"),
    mutant("ROW_CHAIN", "ROWS TOKENS=1 EPOCHS=2", "S4: rows name the chain of their log"),
    mutant("TOKEN_CHAIN", "TOKENS=2 EPOCHS=2", "S3: tokens name the chain before them"),
    mutant("ACK_CHAIN", "SEMI TOKENS=1 EPOCHS=1 CANCELS=1", "S5: acknowledgements name the chain"),
    mutant("HELD", "SEMI TOKENS=1 EPOCHS=1 CANCELS=1", "P: a cut of the log cuts what was acknowledged of it"),
    mutant("STANDBY_EPOCH", "SEMI TOKENS=1 EPOCHS=3", "S1: a standby refuses lower epochs"),
    mutant("ACK_EPOCH", "SEMI TOKENS=1 EPOCHS=3", "S5: acknowledgements count under their epoch only"),
    mutant("OLD_CONNECTION", "SEMI TOKENS=1 EPOCHS=2", "S: what a replaced connection still brings is refused"),
    mutant("EARLY_RELEASE", "SEMI TOKENS=1 EPOCHS=2", "O: nothing is released before the in-sync set has it"),
    mutant("SHRINK", "SEMI TOKENS=1 EPOCHS=2", "I: the compare-and-swap before un-waiting"),
    mutant("JOIN_LOST", "SEMI TOKENS=1 EPOCHS=2", "I: who is being added is waited for until that is answered"),
    mutant("JOIN_BEHIND", "SEMI TOKENS=1 EPOCHS=2", "I: who joins holds everything released"),
    mutant("JOIN_SEALING", "SEMI TOKENS=1 EPOCHS=3", "I: nobody joins before the gateway's log is adopted"),
    mutant("CAS_EPOCH", "SEMI TOKENS=1 EPOCHS=3", "I: changes of the set are guarded by the epoch"),
    mutant("INCARNATION", "SEMI TOKENS=1 EPOCHS=2 CRASHES=1", "I: additions are guarded by the incarnation"),
    mutant("REJOIN", "SEMI TOKENS=1 EPOCHS=2 CRASHES=1", "I: an earlier incarnation leaves the set first"),
    mutant("LEASE_RELEASE", "SEMI LEASES TOKENS=1 EPOCHS=2", "L: alone and without a lease nothing is released"),
    mutant("LEASE_OPEN", "SEMI LEASES TOKENS=1 EPOCHS=2", "L: alone and without a lease no turn is taken"),
    mutant("LEASE_RESUME", "SEMI LEASES TOKENS=1 EPOCHS=2", "L: nor is a tail released when a turn resumes"),
    mutant("LEASE_HEARD", "SEMI LEASES TOKENS=1 EPOCHS=2", "L: nor when the set is heard to have shrunk"),
    mutant("LEASE_ORDER", "SEMI LEASES TOKENS=1 EPOCHS=2", "L: a lease lapses at the node first"),
    mutant("DRAIN_TOLD", "DRAINS=1 ROWS TOKENS=1 EPOCHS=2", "M: the new owner waits for the old one's word"),
    mutant("DRAIN_FLUSH", "DRAINS=1 ROWS TOKENS=1 EPOCHS=2", "M: the log and its rows are acknowledged first"),
    mutant("DRAIN_ROWS", "DRAINS=1 ROWS TOKENS=1 EPOCHS=2", "M: the rows, too, not the log alone"),
    mutant("DRAIN_RESUME", "DRAINS=1 ROWS TOKENS=1 EPOCHS=2", "M: it goes on by itself only if no move is under way"),
    mutant("PROBES", "LIVE SEMI TOKENS=1 EPOCHS=2", "G: every disagreement is probed"),
    mutant("NO_SHRINK", "LIVE SEMI TOKENS=1 EPOCHS=2 CRASHES=1 SUSPICIONS=0", "G, I: a standby that is gone leaves the set"),
)

# Caught only at a size of the long set.
LONG_MUTANTS = (
    mutant("ACK_SEQUENCE", "SEMI TOKENS=2 EPOCHS=3", "S5: an acknowledgement from before a probe does not count"),
)

# Rules whose absence no assert of this model can see: run by --long, where they must hold, so that the list stays true.
MASKED = {
    "PROMOTE_ANYBODY": ("SEMI TOKENS=1 EPOCHS=2 GATEWAYS=1",
                        "P: outside the in-sync set only while a gateway lives. A turn resumes only by a gateway's word, which "
                        "brings the client's history, so the wrong owner costs a recomputation and never a wrong token."),
}

# --- running one case -------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Outcome:
    verdict: str = "broken"  # "holds", "caught", or why the search says nothing, e.g. "vacuous"
    states: int = 0
    depth: int = 0
    seconds: float = 0.0
    memory_mb: float = 0.0
    found: str = ""  # the invariant that an error breaks


def run(command, folder, limit_s):
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit_s)


def flags_of(case):
    """For spin. A configuration says if it has reached what it is about; that takes a line of C, which replays do without."""
    return [f"-D{it}" for it in case.defines.split()] + (["-DREACH"] if case.expected == "holds" else [])


def build(case, folder, memory_mb):
    """Makes the checker `pan` of a case; returns what went wrong, or nothing."""
    shutil.copy(os.path.join(HERE, MODEL), folder)
    made = run(["spin", *flags_of(case), "-a", MODEL], folder, 60)
    if made.returncode != 0:
        return made.stdout
    options = [f"-DMEMLIM={memory_mb}", "-DNOREDUCE"] + (["-DNFAIR=3"] if case.live else ["-DSAFETY", "-DNOFAIR"])
    made = run(["gcc", "-O1", "-w", *options, "-o", "pan", "pan.c"], folder, 300)
    return made.stdout if made.returncode != 0 else ""


def number(pattern, text):
    found = re.search(pattern, text)
    return float(found.group(1)) if found else 0.0


def verdict_of(output):
    """What pan's output says; an error counts even if the search stopped there, its absence only if nothing was left out."""
    errors = re.search(r"errors: (\d+)", output)
    if errors is None:
        return "broken"
    if int(errors.group(1)) > 0:
        return "caught"
    for sign, meaning in (("max search depth too small", "too deep"), ("out of memory", "out of memory"),
                          ("memory exhausted", "out of memory"), ("reached -DMEMLIM", "out of memory"),
                          ("Search not completed", "not completed")):
        if sign in output:
            return meaning
    return "holds" if re.search(r"^reached$", output, flags=re.MULTILINE) else "vacuous"


def invariant_of(case, output, folder):
    """The invariant that the trail in `folder` breaks: named on the line of the assert."""
    if "acceptance cycle" in output:
        return "INV14"
    replay = run(["spin", *flags_of(case), "-t", MODEL], folder, 120).stdout
    line = re.search(re.escape(MODEL) + r":(\d+), Error: assertion violated", replay)
    if line is None:
        return "?"
    with open(os.path.join(folder, MODEL), encoding="utf-8") as file:
        text = file.read().split("\n")[int(line.group(1)) - 1]
    named = re.findall(r"INV\d+", text)
    return named[0] if named else f"line {line.group(1)}"


def check(case, folder, memory_mb, limit_s):
    wrong = build(case, folder, memory_mb)
    if wrong:
        print(wrong, file=sys.stderr)
        return Outcome()
    command = ["./pan", f"-m{DEPTH}"] + (["-a", "-f"] if case.live else ["-E"])
    begun = time.monotonic()
    try:
        output = run(command, folder, limit_s).stdout
    except subprocess.TimeoutExpired:
        return Outcome(verdict="too long", seconds=time.monotonic() - begun)
    outcome = Outcome(verdict_of(output), int(number(r"(\d+) states, stored", output)), int(number(r"depth reached (\d+)", output)),
                      time.monotonic() - begun, number(r"([\d.]+)\s+total actual memory usage", output))
    if outcome.verdict == "caught":
        outcome.found = invariant_of(case, output, folder)
    if outcome.verdict == "broken":
        print(output, file=sys.stderr)
    return outcome


# --- the report -------------------------------------------------------------------------------------------------------

def as_expected(case, outcome):
    return outcome.verdict == case.expected and outcome.found != "?"


def print_row(case, outcome):
    result = outcome.found if outcome.verdict == "caught" else outcome.verdict
    mark = "" if as_expected(case, outcome) else f"  <-- expected: {case.expected}"
    print(f"{case.name:<22} {case.expected:<8} {result:<10} {outcome.states:>10} {outcome.depth:>8} {outcome.seconds:>8.1f} "
          f"{outcome.memory_mb:>8.0f}{mark}", flush=True)


def check_all(cases, arguments):
    """Runs the cases, prints the table in order, returns the names of those that came out otherwise than expected."""
    print(f"{'name':<22} {'expected':<8} {'result':<10} {'states':>10} {'depth':>8} {'seconds':>8} {'MB':>8}")
    failed = []
    memory_mb, limit_s = (MEMORY_LONG_MB, LONGEST_LONG_S) if arguments.long else (MEMORY_MB, LONGEST_S)

    def run_one(case):
        with tempfile.TemporaryDirectory(prefix="baton_model_") as folder:
            return check(case, arguments.keep or folder, memory_mb, limit_s)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for case, outcome in zip(cases, pool.map(run_one, cases)):
            print_row(case, outcome)
            if not as_expected(case, outcome):
                failed.append(case.name)
    return failed


def cases_of(arguments):
    masked = tuple(holds(name, f"{defines} M_{name}", why) for name, (defines, why) in MASKED.items())
    everything = CONFIGURATIONS + MUTANTS + LONG + LONG_MUTANTS + masked
    if arguments.only:
        return [case for case in everything if case.name in arguments.only]
    return everything if arguments.long else CONFIGURATIONS + MUTANTS


def parse_arguments():
    parser = argparse.ArgumentParser(description="Checks the model of the protocol with spin.")
    parser.add_argument("--long", action="store_true", help="larger sizes as well")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this configuration or mutant")
    parser.add_argument("--keep", metavar="DIRECTORY", help="where to leave the checker and the trail; with one --only")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many at once; each may take the memory of one")
    parser.add_argument("--list", action="store_true", help="print the names and what they are for")
    arguments = parser.parse_args()
    if arguments.keep:
        os.makedirs(arguments.keep, exist_ok=True)
    return arguments


def main():
    arguments = parse_arguments()
    cases = cases_of(arguments)
    if arguments.list:
        for case in cases:
            print(f"{case.name:<22} {case.expected:<8} {case.why}\n{'':<32}{case.defines}")
        return 0
    for tool in ("spin", "gcc"):
        if shutil.which(tool) is None:
            print(f"model: skipped, there is no {tool} (Debian: apt-get install {tool})")
            return SKIPPED
    if not cases:
        print("model: no such configuration or mutant; --list --long names them all")
        return 1
    begun = time.monotonic()
    failed = check_all(cases, arguments)
    print(f"model: {len(cases) - len(failed)} of {len(cases)} as expected in {time.monotonic() - begun:.0f} s")
    for name in failed:
        print(f"again: python3 tests/model/check.py --only {name}" + (" --long" if arguments.long else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
