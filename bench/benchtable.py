"""What a run says on the terminal: the machine, the roofs of each round, and the table of ratios."""
import os
import platform
import statistics
from collections import defaultdict

FLAGS = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_bf16", "avx512_fp16", "avx512_vnni",
         "amx_tile", "amx_bf16", "amx_int8")
UNITS = {"fma": "GFLOP/s", "amx_bf16": "GFLOP/s"}


def machine(cores):
    info, flags = {}, ()
    for line in open("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        info.setdefault(key.strip(), value.strip())
    flags = info.get("flags", "").split()
    return dict(cpu=info.get("model name", platform.processor()), cores=len(cores), cache=info.get("cache size", "?"),
                flags=" ".join(f for f in FLAGS if f in flags), load=round(os.getloadavg()[0], 2), system=platform.release())


def seconds(s):
    for scale, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if s >= scale:
            return f"{s / scale:.3g} {unit}"
    return f"{s * 1e9:.3g} ns"


def roof_words(roofs):
    """roofs: {(unit, threads): value} of one round."""
    return ", ".join(f"{unit} {threads}t {value:.4g} {UNITS.get(unit, 'GB/s')}" for (unit, threads), value in roofs.items())


class Results:
    """The rows of a run, by work, round, peer and mode."""

    def __init__(self):
        self.times = defaultdict(lambda: defaultdict(dict))   # key -> round -> (peer, mode) -> min_s
        self.memory = defaultdict(lambda: defaultdict(dict))  # key -> (peer, mode) -> round -> MiB
        self.roofs = defaultdict(dict)                        # round -> (unit, threads) -> value
        self.notes = defaultdict(dict)                        # key -> (peer, mode) -> why there is no time

    def add(self, row):
        key, who, rnd = (row["work"], row["dtype"], row["threads"]), (row["peer"], row.get("mode", "")), row["round"]
        value = row.get("gflops", row.get("gbytes_s"))
        if row["peer"] == "roof":
            if value:
                unit = (row["work"], row["threads"])
                self.roofs[rnd][unit] = max(value, self.roofs[rnd].get(unit, 0))
        elif "min_s" in row:
            self.times[key][rnd][who] = min(row["min_s"], self.times[key][rnd].get(who, 9e9))
        elif row.get("skipped") != "not a work of this peer":
            self.notes[key][who] = row.get("skipped") or "error: " + row.get("error", "?")
        if row.get("added_mib"):
            self.memory[key][who][rnd] = row["added_mib"]

    def modes(self, key):
        return sorted({who for here in self.times[key].values() for who in here})

    def best_s(self, key, who):
        return min(here[who] for here in self.times[key].values() if who in here)

    def ratios(self, key, mine, others):
        """In each round the fastest of the others over mine."""
        got = []
        for here in self.times[key].values():
            rest = [s for who, s in here.items() if who in others]
            if mine in here and rest:
                got.append(min(rest) / here[mine])
        return got

    def share(self, work, mine):
        """The median share of the roof, in per cent, and the roof's name; the f32 roof where there is no AMX."""
        got, unit = [], work.roof
        if work.roof == "amx_bf16" and not any((unit, work.threads) in r for r in self.roofs.values()):
            unit = "fma"
        for rnd, here in self.times[work.key].items():
            roof = self.roofs[rnd].get((unit, work.threads))
            if mine in here and roof and work.amount:
                got.append(work.amount / here[mine] / 1e9 / roof)
        return f"{100 * statistics.median(got):.0f} % of {unit}" if got else ""


def spread(ratios):
    if not ratios:
        return "-"
    return f"{statistics.median(ratios):.3g} x [{min(ratios):.3g} .. {max(ratios):.3g}]"


def name(who):
    return "/".join(part for part in who if part)


def print_memory(memory):
    """A line for every mode of Weft: MiB that the work added, and their share of PyTorch's."""
    torch = next((mib for who, mib in memory.items() if who[0] == "torch"), {})
    for who, mib in memory.items():
        shares = [mib[rnd] / torch[rnd] for rnd in mib if rnd in torch]
        against = f"{spread(shares)} of torch's" if who[0] == "weft" else ""
        print(f"    memory added: {name(who):<26} {statistics.median(mib.values()):>6.0f} MiB  {against}")


def print_work(results, work):
    """A line for every mode of Weft against the best peer, then the peers from fast to slow."""
    key, modes = work.key, results.modes(work.key)
    mine = [who for who in modes if who[0] == "weft"]
    peers = [who for who in modes if who[0] not in ("weft", "control", "hand")]
    best = min(peers, key=lambda who: results.best_s(key, who), default=None)
    for who in mine or [None]:
        time = seconds(results.best_s(key, who)) if who else "-"
        against = f"{name(best)} {seconds(results.best_s(key, best))}" if best else "-"
        print(f"{work.title():<34} {who[1] if who else '':<8} {time:>9}  {against:<32} "
              f"{spread(results.ratios(key, who, peers)) if who else '-':<28} {results.share(work, who or best) if (who or best) else ''}")
        hand = [w for w in modes if w[0] == "hand"]
        if hand and who:
            print(f"{'':<44}{'':>9}  hand {seconds(results.best_s(key, hand[0])):<27} {spread(results.ratios(key, who, hand))}")
    others = sorted((results.best_s(key, who), who) for who in peers if who != best)
    if others:
        print("    others: " + ", ".join(f"{name(who)} {seconds(s)}" for s, who in others))
    print_memory(results.memory[key])
    for who, why in results.notes[key].items():
        print(f"    {name(who)}: {why}")


def print_control(results, works):
    """Weft against Weft: whatever is not 1.00 there is noise in everything else."""
    for work in works:
        for who in results.modes(work.key):
            if who[0] != "control":
                continue
            got = results.ratios(work.key, ("weft", who[1]), [who])
            if got and abs(statistics.median(got) - 1) > 0.03:
                print(f"WARNING: A against A is {spread(got)} for {work.title()} {who[1]}: this run says nothing about it")


def print_table(results, works, rounds):
    print(f"\n{'work':<34} {'mode':<8} {'Weft':>9}  {'best peer':<32} {'ratio, median of ' + str(rounds) + ' rounds':<28} share of the roof")
    for work in works:
        print_work(results, work)
    print_control(results, works)
