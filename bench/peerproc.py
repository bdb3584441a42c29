"""A peer as a living process: it is asked for one piece of work at a time and pinned to the cores that the work may use."""
import json
import os
import selectors
import subprocess
import time


class Gone(Exception):
    """The process died or did not answer in time; the words say which."""


class Process:
    def __init__(self, name, command, env, log, cores):
        self.name, self.log, self.buffer = name, log, b""
        self.errors = open(log, "ab")
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=env,
                                      preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.wait = selectors.DefaultSelector()
        self.wait.register(self.child.stdout, selectors.EVENT_READ)
        self.cores = cores

    def pin(self, cores):
        """All threads of the process, those of its pools too; a thread that ends meanwhile is no matter."""
        if cores == self.cores:
            return
        try:
            for tid in os.listdir(f"/proc/{self.child.pid}/task"):
                try:
                    os.sched_setaffinity(int(tid), cores)
                except ProcessLookupError:
                    pass
        except FileNotFoundError:
            raise Gone(f"{self.name} has ended") from None
        self.cores = cores

    def line(self, until):
        while b"\n" not in self.buffer:
            if not self.wait.select(max(0, until - time.monotonic())):
                raise Gone(f"{self.name} did not answer in time")
            got = os.read(self.child.stdout.fileno(), 65536)
            if not got:
                raise Gone(f"{self.name} ended: {self.last_words()}")
            self.buffer += got
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    def rows(self, limit):
        """The rows up to the line that says done; what is not JSON is a remark of some library."""
        until, rows = time.monotonic() + limit, []
        while True:
            try:
                row = json.loads(self.line(until))
            except ValueError:
                continue
            if row.get("done"):
                return rows
            rows.append(row)

    def ask(self, limit, **request):
        try:
            self.child.stdin.write((json.dumps(request) + "\n").encode())
            self.child.stdin.flush()
        except OSError:
            raise Gone(f"{self.name} ended: {self.last_words()}") from None
        return self.rows(limit)

    def last_words(self):
        try:
            lines = open(self.log, errors="replace").read().strip().splitlines()
        except OSError:
            lines = []
        return (lines[-1] if lines else f"status {self.child.poll()}")[:160]

    def stop(self):
        try:
            self.child.stdin.close()
            self.child.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.child.kill()
            self.child.wait()
        self.child.stdout.close()
        self.errors.close()


def once(name, command, env, log, cores, limit):
    """The rows of a process that does one thing and ends."""
    process = Process(name, command, env, log, cores)
    try:
        return process.rows(limit)
    finally:
        process.stop()
