#!/usr/bin/env python3
"""Checks that each rule in docs/protocol.md is left out somewhere: what its table names are mutants of the model and scripts
of the simulation that there are. The model and the simulation check that each is missed."""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests/model"))

import check  # noqa: E402

FEWEST = 15


def rows():
    """What stands in the last column of the table, row by row."""
    with open(os.path.join(ROOT, "docs/protocol.md"), encoding="utf-8") as file:
        table = file.read().split("## What each rule prevents")[1].split("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines[2:]]


def unknown(kind, name, mutants):
    if kind == "model":
        return name not in mutants
    path = os.path.join(ROOT, "tests/simulation/scripts", f"{name}.txt")
    if not os.path.isfile(path):
        return True
    with open(path, encoding="utf-8") as file:
        return re.search(r"^cluster .*without=\w+ violates=INV\d+$", file.read(), re.MULTILINE) is None


def main():
    mutants = {case.name for case in check.MUTANTS}
    problems, table = [], rows()
    for without, *_, missed_by in table:
        named = [(kind, name) for kind, names in re.findall(r"(model|script) (`\w+`(?:, `\w+`)*)", missed_by)
                 for name in re.findall(r"\w+", names)]
        if not named:
            problems.append(f"{without}: nothing misses it")
        problems += [f"{without}: no {kind} {name}" for kind, name in named if unknown(kind, name, mutants)]
    if len(table) < FEWEST:
        problems.append(f"{len(table)} rules, not at least {FEWEST}")
    print("\n".join([*problems, f"rules: {len(problems)} problems in {len(table)} rows"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
