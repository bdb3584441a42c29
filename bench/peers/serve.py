"""The side of a peer that talks to run.py: one living process that prepares and times a piece of work when asked.

A request is a line of JSON on standard input, {"prepare": WORK, "dtype": D, "threads": N} or
{"time": WORK, "dtype": D, "threads": N, "seconds": S}; the answer is any number of rows, one JSON object a line, and then
{"done": true}. README.md of bench/ has the form of a row.
"""
import contextlib
import json
import os
import resource
import statistics
import sys
import time
import traceback
from itertools import repeat

OUT = None  # where rows go; libraries that print do so on standard error


class Skip(Exception):
    """This peer cannot run the work on this machine, and the reason why."""


class Case:
    """One way (mode) of running a piece of work. `within` makes the context manager around every call."""

    def __init__(self, mode, fn, flops=0, nbytes=0, within=contextlib.nullcontext):
        self.mode, self.fn, self.flops, self.nbytes, self.within = mode, fn, flops, nbytes, within
        self.first_s = self.error = None

    def prepare(self):
        """The first call, compilation included, and two more, so that nothing is left to be done once."""
        with self.within():
            start = time.perf_counter()
            self.fn()
            self.first_s = time.perf_counter() - start
            if self.first_s < 5:
                self.fn()
            self.fn()

    def measure(self, seconds):
        """Samples of about 10 ms each over `seconds`, at least three of them (two where one call takes a second)."""
        fn, clock, samples = self.fn, time.perf_counter, []
        with self.within():
            start = clock()
            fn()
            one = max(clock() - start, 1e-7)
            inner, least = max(1, int(0.01 / one)), 2 if one > 1 else 3
            end = clock() + seconds
            while len(samples) < least or clock() < end:
                start = clock()
                for _ in repeat(None, inner):
                    fn()
                samples.append((clock() - start) / inner)
        return samples


def emit(**row):
    OUT.write(json.dumps(row) + "\n")
    OUT.flush()


def rss_mib():
    """The largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def words(error):
    """The first line of an error, short enough for a row."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def start():
    """Keeps standard output for rows alone."""
    global OUT
    OUT = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)


class Server:
    """works: name -> function(dtype, threads, compile) -> list of Case."""

    def __init__(self, peer, version, works, set_threads=lambda n: None):
        self.peer, self.version, self.works, self.set_threads = peer, version, works, set_threads
        self.ready = {}

    def row(self, case, key, **more):
        work, dtype, threads = key
        return dict(peer=self.peer, version=self.version, work=work, mode=case.mode if case else "", dtype=dtype,
                    threads=threads, **more)

    def prepare(self, key, compiled):
        if key in self.ready:
            return self.ready[key]
        self.ready[key] = []
        try:
            if key[0] not in self.works:
                raise Skip("not a work of this peer")
            cases = self.works[key[0]](key[1], key[2], compiled)
        except Skip as why:
            emit(**self.row(None, key, skipped=str(why)))
            return []
        for case in cases:
            try:
                case.prepare()
                self.ready[key].append(case)
            except Exception as error:  # a peer that cannot run a case is a result, too
                traceback.print_exc()
                emit(**self.row(case, key, error=words(error)))
        return self.ready[key]

    def time(self, key, seconds, compiled):
        for case in self.prepare(key, compiled):
            samples = case.measure(seconds)
            best = min(samples)
            row = self.row(case, key, min_s=best, median_s=statistics.median(samples), samples=len(samples))
            if case.first_s is not None:
                row["first_s"], case.first_s = case.first_s, None
            if case.flops:
                row["gflops"] = case.flops / best / 1e9
            if case.nbytes:
                row["gbytes_s"] = case.nbytes / best / 1e9
            emit(**row)

    def run(self):
        for line in sys.stdin:
            ask = json.loads(line)
            work = ask.get("prepare") or ask.get("time")
            key, compiled = (work, ask.get("dtype", "f32"), ask.get("threads", 1)), ask.get("compile", True)
            try:
                self.set_threads(key[2])
                if "prepare" in ask:
                    self.prepare(key, compiled)
                else:
                    self.time(key, ask.get("seconds", 0.3), compiled)
            except Exception as error:
                traceback.print_exc()
                emit(**self.row(None, key, error=words(error)))
            emit(done=True)


def alone(peer, version, work, build, dtype, threads):
    """Work that is run alone in a fresh process: the resident memory that training adds, and the time of a step."""
    base = rss_mib()
    case = build(dtype, threads, False)[0]
    case.prepare()
    best = min(case.measure(2))
    emit(peer=peer, version=version, work=work, mode=case.mode, dtype=dtype, threads=threads, min_s=best,
         added_mib=rss_mib() - base)
    emit(done=True)


def imported(peer, version, mode, since):
    """The row of `import`: from the start of the import to a first result."""
    emit(peer=peer, version=version, work="import", mode=mode, dtype="f32", threads=1, min_s=time.perf_counter() - since,
         rss_mib=rss_mib())
    emit(done=True)
