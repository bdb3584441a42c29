#!/usr/bin/env python3
"""The benchmark: Weft and its peers take turns on each piece of work, in at least five rounds.

usage: ./dev bench [--only PREFIX,...] [--json FILE] [--rounds N] [--threads N,N] [--dtype D,D] [--seconds S]
                   [--peers LIST|none] [--quick] [--no-weft] [--no-compile] [--no-install] [--build DIR] [--worker FILE] [--list]

  --only PREFIX,...  the works whose names begin so; all that Weft can do if left out
  --json FILE        every result as a line of JSON
  --rounds N         5 unless said; --quick: one short round, for a look or a test
  --seconds S        spent on each result in each round (0.3)
  --peers LIST       of torch libtorch jax ort openvino openblas onednn; what is missing is installed in a throw-away
                     environment (WEFT_BENCH_ENV names one that is there; --no-install: use what is there)
  --no-compile       without torch.compile, whose first calls take up to a minute each
  --no-weft          peers and roofs alone; --worker FILE: a weft_bench that is built already
README.md beside this file says how things are measured.
"""
import argparse
import json
import os
import signal
import sys
import time

import benchenv
import benchtable
import peerproc
import worklist

ROOFS = ("fma", "read", "stream31", "stream11", "amx_bf16")
FIXED_POOL = ("jax", "ort", "openvino")  # these size their pools when they start: one process a number of threads
PREPARE_LIMIT, TIME_LIMIT = 900, 300
say = benchenv.say


class Bench:
    def __init__(self, options, works, peers, environment):
        self.options, self.works, self.env = options, works, environment
        self.cores = sorted(os.sched_getaffinity(0))
        self.results, self.commands, self.processes, self.out = benchtable.Results(), {}, {}, []
        self.idle = set()  # (peer, key) that cannot: not asked again
        if options.json:
            self.out = [open(options.json, "w")]
        for peer in peers:
            self.add_peer(peer, lambda: environment.command(peer))

    def add_peer(self, peer, command):
        try:
            self.commands[peer] = command()
        except benchenv.Missing as why:
            say(f"{peer} is left out: {why}")

    def write(self, row):
        for out in self.out:
            out.write(json.dumps(row) + "\n")
            out.flush()

    def keep(self, rows, rnd, peer=None):
        for row in rows:
            row = row | {"round": rnd} | ({"peer": peer} if peer else {})
            self.results.add(row)
            self.write(row)

    def set_of(self, threads):
        """The last cores: the first one serves most interrupts."""
        return set(self.cores[-threads:])

    def process(self, peer, threads):
        slot = (peer, threads if peer in FIXED_POOL else 0)
        if slot not in self.processes:
            cores = self.set_of(threads) if peer in FIXED_POOL else set(self.cores)
            log = os.path.join(self.env.logs, f"{peer}.log")
            self.processes[slot] = peerproc.Process(peer, self.commands[peer], self.env.variables(), log, cores)
        return slot, self.processes[slot]

    def ask(self, peer, work, limit, cores, **request):
        """Rows, or none where the peer is gone: then it is started afresh for the next work, and this one is given up."""
        try:
            slot, process = self.process(peer, work.threads)
            if peer not in FIXED_POOL:
                process.pin(cores)
            return process.ask(limit, dtype=work.dtype, threads=work.threads, compile=self.options.compile, **request)
        except (peerproc.Gone, OSError) as why:
            say(f"{peer} on {work.title()}: {why}")
            self.idle.add((peer, work.key))
            if (gone := self.processes.pop(slot, None)):
                gone.child.kill()
                gone.stop()
            return [dict(peer=peer, work=work.name, dtype=work.dtype, threads=work.threads, error=str(why))]

    def who(self, work):
        return [p for p in ("weft", *work.peers) if p in self.commands and (p, work.key) not in self.idle]

    def once(self, peer, work, *more):
        """Work that has a process of its own: import and memory."""
        command = self.commands[peer] + ([work.name] if work.name == "import" else ["memory", str(work.threads), *more])
        if peer == "weft" and work.name == "import":
            command.append(repr(time.clock_gettime(time.CLOCK_MONOTONIC)))  # the clock starts before the process does
        log = os.path.join(self.env.logs, f"{peer}.log")
        try:
            return peerproc.once(peer, command, self.env.variables(), log, self.set_of(work.threads), TIME_LIMIT)
        except peerproc.Gone as why:
            return [dict(peer=peer, work=work.name, dtype=work.dtype, threads=work.threads, error=str(why))]

    def prepare(self):
        """Every peer gets every piece of work ready, compilation included, before anything is timed."""
        for work in self.works:
            if work.alone:
                continue
            for peer in self.who(work):
                start = time.monotonic()
                rows = self.ask(peer, work, PREPARE_LIMIT, set(self.cores), prepare=work.name)
                self.keep(rows, 0)
                if any(not row.get("mode") for row in rows):  # the peer as a whole cannot, not one of its modes
                    self.idle.add((peer, work.key))
                if (took := time.monotonic() - start) > 5:
                    say(f"{peer} took {took:.0f} s to get {work.title()} ready")

    def measure_roofs(self, rnd):
        if "roof" not in self.commands:
            return
        for threads in sorted({w.threads for w in self.works}):
            for unit in ROOFS:
                work = worklist.Work(unit, (), threads=threads)
                if ("roof", work.key) in self.idle:
                    continue
                rows = self.ask("roof", work, TIME_LIMIT, self.set_of(threads), time=unit, seconds=self.options.seconds / 2)
                self.keep(rows, rnd)
                if not any("min_s" in row for row in rows):
                    self.idle.add(("roof", work.key))

    def turn(self, work, rnd, number):
        """One round of one work: all who can do it, in an order that moves on from round to round, then Weft once more."""
        who = self.who(work)
        if not work.alone and "weft" in who and self.options.control:
            who.append("control")
        shift = (rnd + number) % max(1, len(who))
        for peer in who[shift:] + who[:shift]:
            if work.alone:
                self.keep(self.once(peer, work), rnd)
                if peer == "weft" and work.name == worklist.MEMORY:
                    self.keep(self.once(peer, work, "budget"), rnd)
                continue
            rows = self.ask("weft" if peer == "control" else peer, work, TIME_LIMIT, self.set_of(work.threads), time=work.name,
                            seconds=self.options.seconds)
            self.keep(rows, rnd, "control" if peer == "control" else None)

    def run(self):
        self.prepare()
        for rnd in range(self.options.rounds):
            load = os.getloadavg()[0]
            self.write(dict(round=rnd, load=load))
            self.measure_roofs(rnd)
            for number, work in enumerate(self.works):
                if rnd < work.rounds:
                    self.turn(work, rnd, number)
            self.measure_roofs(rnd)  # once more: the better figure is the roof of the round
            say(f"round {rnd + 1} of {self.options.rounds}, load {load:.2f}; {benchtable.roof_words(self.results.roofs[rnd])}")

    def stop(self):
        for process in self.processes.values():
            process.stop()
        for out in self.out:
            out.close()


def options():
    words = lambda text: [w for w in text.split(",") if w]
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--only", type=words, default=[])
    p.add_argument("--json")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=lambda text: [int(w) for w in words(text)], default=[])
    p.add_argument("--dtype", type=words, default=[])
    p.add_argument("--seconds", type=float, default=0.3)
    p.add_argument("--peers", type=words, default=list(worklist.PEERS))
    p.add_argument("--quick", action="store_true")
    for name in ("weft", "compile", "install", "control"):
        p.add_argument(f"--no-{name}", dest=name, action="store_false")
    p.add_argument("--build", default=os.path.join(benchenv.ROOT, "build", "bench"))
    p.add_argument("--worker")
    p.add_argument("--list", action="store_true")
    o = p.parse_args()
    if o.quick:
        o.rounds, o.seconds, o.compile = 1, 0.05, False
    if o.peers == ["none"]:
        o.peers = []
    if (bad := [name for name in o.peers if name not in worklist.PEERS]) or o.rounds < 1:
        p.error(f"no such peer: {', '.join(bad)}" if bad else "--rounds: at least 1")
    return o


def weft_can(bench):
    """The works that weft_bench knows, so that nothing else is timed unless it was asked for by name."""
    rows = bench.processes[bench.process("weft", 1)[0]].ask(TIME_LIMIT, list=True)
    return {(row["work"], row["dtype"]) for row in rows}


def main():
    o = options()
    works = worklist.chosen(o.only, o.threads, o.dtype)
    if not works:
        print("bench: no such work; there are", file=sys.stderr)
    if o.list or not works:
        print("\n".join(f"{w.title():<40} {' '.join(w.peers)}" for w in works or worklist.ALL))
        return 0 if o.list else 2
    environment = benchenv.Environment(o.build, o.install)
    wanted = [peer for peer in o.peers if any(peer in w.peers for w in works)]
    bench = Bench(o, works, ["roof"] + wanted, environment)
    if o.weft:
        bench.add_peer("weft", lambda: [o.worker or environment.weft()])
        if "weft" not in bench.commands:
            return 1
        bench.commands["hand"] = bench.commands["weft"] + ["hand"]
        if not o.only:
            able = weft_can(bench)
            bench.works = [w for w in works if w.alone or (w.name, w.dtype) in able]
    here = benchtable.machine(bench.cores)
    print(f"{here['cpu']}, {here['cores']} cores, cache {here['cache']}, {here['flags']}, load {here['load']}, Linux {here['system']}")
    bench.write(here)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        bench.run()
    except KeyboardInterrupt:
        say("stopped; what was measured so far:")
    finally:
        bench.stop()
    benchtable.print_table(bench.results, bench.works, o.rounds)
    return 0


sys.exit(main())
