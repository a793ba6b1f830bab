"""grep and glob over a generated tree (20,000 files, about 200 MB; --quick: 2,000 files, 20 MB). Wall and CPU.

    python search.py [--quick] [--tree DIR] [--parts MODULE]

--parts: the named project's own grep and glob (peers/MODULE.py, see peers/README.md) beside the plain scandir ones.
"""

import argparse
import fnmatch
import importlib
import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PATTERN = r"needle_[0-9]+\("
RE = re.compile(PATTERN.encode())


def make(root, files, size):
    rng = random.Random(7)
    vocabulary = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz_", k=rng.randint(3, 10))) for _ in range(4000)]
    block = [" ".join(rng.choices(vocabulary, k=9)) + "\n" for _ in range(4000)]
    for i in range(files):
        d = os.path.join(root, f"pkg{i % 40:02d}", f"mod{i // 40 % 25:02d}")
        os.makedirs(d, exist_ok=True)
        lines, total = [], 0
        while total < size:
            at = rng.randrange(3900)
            lines += block[at : at + 60]
            total += sum(map(len, block[at : at + 60]))
        if i % 200 == 0:
            lines.insert(len(lines) // 2, f"    return needle_{i}(value)\n")
        with open(os.path.join(d, f"file{i:05d}.{('py', 'txt', 'md', 'js')[i % 4]}"), "w") as f:
            f.writelines(lines)


def walk(root):
    stack = [root]
    while stack:
        with os.scandir(stack.pop()) as it:
            for e in it:
                if e.is_dir(follow_symlinks=False):
                    stack.append(e.path)
                elif e.is_file(follow_symlinks=False):
                    yield e.path


def grep_lines(root):
    """the naive tool: text mode, line by line"""
    found, rx = 0, re.compile(PATTERN)
    for d, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(d, name), encoding="utf-8", errors="replace") as f:
                for line in f:
                    if rx.search(line):
                        found += 1
    return found


def grep_bytes_paths(paths):
    found = 0
    for p in paths:
        fd = os.open(p, os.O_RDONLY)
        try:
            data = os.read(fd, 2_000_000)
        finally:
            os.close(fd)
        found += sum(1 for _ in RE.finditer(data))
    return found


def grep_bytes(root):
    """whole file as bytes, one compiled bytes pattern over it; line numbers only for hits"""
    return grep_bytes_paths(walk(root))


def grep_literal(root):
    """as above, with the pattern's required literal searched first (memmem)"""
    found = 0
    for p in walk(root):
        fd = os.open(p, os.O_RDONLY)
        try:
            data = os.read(fd, 2_000_000)
        finally:
            os.close(fd)
        if b"needle_" in data:
            found += sum(1 for _ in RE.finditer(data))
    return found


def command(*argv):
    def run(root):
        out = subprocess.run([*argv, root], stdout=subprocess.PIPE).stdout
        return out.count(b"\n")

    return run


def measure(fn, root, repeats):
    walls, cpus, out = [], [], None
    for _ in range(repeats):
        w = time.perf_counter()
        a = [resource.getrusage(x) for x in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        out = fn(root)
        b = [resource.getrusage(x) for x in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        walls.append(time.perf_counter() - w)
        cpus.append(sum(y.ru_utime + y.ru_stime - x.ru_utime - x.ru_stime for x, y in zip(a, b)))
    return statistics.median(walls), statistics.median(cpus), out


def wc(root):
    from wcmatch import glob

    return len(glob.glob("**/*.py", root_dir=root, flags=glob.GLOBSTAR))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--quick", action="store_true")
    ap.add_argument("--tree")
    ap.add_argument("--repeats", type=int, default=0)
    ap.add_argument("--parts")
    a = ap.parse_args()
    tmp = None if a.tree else tempfile.mkdtemp(prefix="bench-tree-")
    root = a.tree or tmp
    if tmp or not os.listdir(root):
        make(root, 2000 if a.quick else 20000, 10_000)
    repeats = a.repeats or (1 if a.quick else 2)
    greps = {
        "python os.walk + line loop": grep_lines,
        "python scandir + bytes regex": grep_bytes,
        "python scandir + literal precheck": grep_literal,
    }
    if shutil.which("grep"):
        greps["grep -rE"] = command("grep", "-rnE", PATTERN)
    if shutil.which("rg"):
        greps["rg -j1"] = command("rg", "-n", "--no-ignore", "--hidden", "-j1", PATTERN)
        greps["rg"] = command("rg", "-n", "--no-ignore", "--hidden", PATTERN)
    globs = {
        "pathlib.rglob('*.py')": lambda r: sum(1 for _ in Path(r).rglob("*.py")),
        "glob.glob('**/*.py')": lambda r: len(__import__("glob").glob("**/*.py", root_dir=r, recursive=True)),
        "os.walk + fnmatch": lambda r: sum(len(fnmatch.filter(n, "*.py")) for _, _, n in os.walk(r)),
        "scandir + compiled fnmatch": lambda r: sum(1 for p in walk(r) if PY(p)),
    }
    PY = re.compile(fnmatch.translate("*.py")).match
    try:
        import wcmatch  # noqa: F401

        globs["wcmatch.glob('**/*.py')"] = wc
    except ImportError:
        pass
    if shutil.which("rg"):
        globs["rg --files -g"] = command("rg", "--files", "--no-ignore", "--hidden", "-g", "*.py")
    if a.parts:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        mine = importlib.import_module(f"peers.{a.parts}")
        plain, rg = "python scandir + bytes regex", "rg"
        greps = {k: f for k, f in greps.items() if k in (plain, rg)} | {a.parts: lambda r: mine.grep(r, PATTERN)}
        globs = {
            "scandir + compiled fnmatch": globs["scandir + compiled fnmatch"],
            a.parts: lambda r: mine.glob(r, "*.py"),
        }
    try:
        for title, fns in (("grep", greps), ("glob", globs)):
            print(f"## {title} ({sum(1 for _ in walk(root))} files)")
            rows = {n: measure(f, root, repeats) for n, f in fns.items()}
            best = min(c for _, c, _ in rows.values())
            for n, (w, c, out) in rows.items():
                print(f"{n:36s} wall {w:7.2f} s   cpu {c:7.2f} s   {c / best:6.1f}x least cpu   hits {out}", flush=True)
    finally:
        if tmp:
            shutil.rmtree(tmp)


if __name__ == "__main__":
    main()
