#!/usr/bin/env python3
"""Prints requirements.txt for the packages named: every dependency, at one version, with the hashes of its wheels.

    python3 tools/pin_python.py openai > requirements.new && mv requirements.new tools/requirements.txt

Wheels of Linux on x86-64 only, for the Python versions below: Debian 12 has 3.11, the others are what developers run.
"""
import collections
import json
import subprocess
import sys

PYTHON_VERSIONS = ("3.11", "3.12", "3.13")


def resolve(packages, python_version):
    """What pip would install, as its own report says; nothing is installed."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--report", "-",
               "--only-binary", ":all:", "--platform", "manylinux_2_17_x86_64", "--platform", "manylinux_2_28_x86_64",
               "--python-version", python_version, "--target", "unused", *packages]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)["install"]


def main():
    packages = sys.argv[1:]
    if not packages:
        sys.exit(__doc__)
    hashes = collections.defaultdict(set)
    for python_version in PYTHON_VERSIONS:
        for item in resolve(packages, python_version):
            pin = f"{item['metadata']['name'].lower().replace('_', '-')}=={item['metadata']['version']}"
            hashes[pin].add(item["download_info"]["archive_info"]["hashes"]["sha256"])
    names = [pin.partition("==")[0] for pin in hashes]
    if len(names) != len(set(names)):
        sys.exit("the Python versions resolve differently; narrow PYTHON_VERSIONS or the packages")
    print(f"# Made by: python3 tools/pin_python.py {' '.join(packages)}")
    for pin in sorted(hashes):
        print(" \\\n    ".join([pin, *(f"--hash=sha256:{digest}" for digest in sorted(hashes[pin]))]))


if __name__ == "__main__":
    main()
