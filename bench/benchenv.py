"""What the benchmark needs and how it gets it: a throw-away Python environment, two Debian packages, compiled peers.

Nothing here touches the system's Python. WEFT_BENCH_ENV names an environment that is there already.
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HERE = os.path.join(ROOT, "bench")
PACKAGES = {  # peer: what pip installs for it, and the module that shows that it is there
    "torch": (["torch==2.15.0", "numpy"], "torch"),
    "libtorch": (["torch==2.15.0", "numpy"], "torch"),
    "jax": (["jax==0.10.2"], "jax"),
    "ort": (["onnxruntime==1.32.0", "onnx==1.22.0", "numpy"], "onnxruntime"),
    "openvino": (["openvino==2026.4.1", "onnx==1.22.0", "numpy"], "openvino"),
}
DEBIAN = {"openblas": "libopenblas-dev", "onednn": "libdnnl-dev"}
GIB = {"torch": 6, "libtorch": 6, "jax": 1, "ort": 1, "openvino": 1}


class Missing(Exception):
    """A peer cannot be had; the words say why."""


def say(text):
    print(f"bench: {text}", flush=True)


def quiet_run(command, log, **more):
    """Runs a command with its words in the log; True if it succeeded."""
    with open(log, "ab") as out:
        out.write((" ".join(command) + "\n").encode())
        out.flush()
        try:
            return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, **more).returncode == 0
        except OSError as error:
            out.write(f"{error}\n".encode())
            return False


def newest(*paths):
    return max(os.path.getmtime(p) for p in paths)


class Environment:
    def __init__(self, build, install):
        self.build, self.install = os.path.abspath(build), install
        self.logs = os.path.join(self.build, "logs")
        os.makedirs(self.logs, exist_ok=True)
        cache = os.environ.get("XDG_CACHE_HOME")
        self.given = os.environ.get("WEFT_BENCH_ENV")
        self.venv = self.given or (os.path.join(cache, "weft-bench") if cache else os.path.join(ROOT, "build", "bench-env"))
        self.python = os.path.join(self.venv, "bin", "python")
        self.scratch = tempfile.TemporaryDirectory(prefix="weft-bench-")
        self.setup_log = os.path.join(self.logs, "setup.log")

    def variables(self):
        """Of every process: no foreign choice of kernels or threads, empty caches, the CPU alone."""
        env = {k: v for k, v in os.environ.items()
               if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE") and not k.startswith(("OMP_", "MKL_", "KMP_", "WEFT_"))}
        env |= {k: os.path.join(self.scratch.name, d) for k, d in (("TORCHINDUCTOR_CACHE_DIR", "inductor"),
                                                                  ("TRITON_CACHE_DIR", "triton"), ("XDG_CACHE_HOME", "cache"))}
        for folder in ("inductor", "triton", "cache"):
            os.makedirs(os.path.join(self.scratch.name, folder), mode=0o700, exist_ok=True)
        for name in ("WEFT_ISA", "WEFT_CC"):  # asked for by whoever starts the benchmark
            if name in os.environ:
                env[name] = os.environ[name]
        return env | {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONNOUSERSITE": "1"}

    def debian(self, *packages):
        """Installs packages where this may be done without a question."""
        if not self.install or not shutil.which("apt-get"):
            return False
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        say("installing " + " ".join(packages))
        env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        ask = sudo + ["apt-get", "install", "-y", "--no-install-recommends", *packages]
        return quiet_run(ask, self.setup_log, env=env) or (
            quiet_run(sudo + ["apt-get", "update"], self.setup_log, env=env) and quiet_run(ask, self.setup_log, env=env))

    def make_venv(self):
        if os.path.exists(self.python):
            return
        if self.given or not self.install:
            raise Missing(f"no Python environment in {self.venv}")
        say(f"making a Python environment in {self.venv}")
        make = [sys.executable, "-m", "venv", self.venv]
        if not quiet_run(make, self.setup_log) and not (self.debian("python3-venv") and quiet_run(make, self.setup_log)):
            raise Missing(f"no Python environment: see {self.setup_log}")

    def python_peer(self, peer):
        packages, module = PACKAGES[peer]
        self.make_venv()
        probe = [self.python, "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"]
        if subprocess.run(probe).returncode == 0:
            return
        if not self.install:
            raise Missing(f"{module} is not installed in {self.venv}")
        if shutil.disk_usage(self.venv).free < GIB[peer] << 30:
            raise Missing(f"{peer} needs {GIB[peer]} GiB of free space")
        say("installing " + " ".join(packages) + (" (5 GB, some minutes)" if module == "torch" else ""))
        if not quiet_run([self.python, "-m", "pip", "install", "-q", "--progress-bar", "off", *packages], self.setup_log):
            raise Missing(f"pip could not install {packages[0]}: see {self.setup_log}")

    def compiled(self, name, source, *flags, compiler=None):
        """A program of bench/, built again when a source is newer."""
        out, source = os.path.join(self.build, name), os.path.join(HERE, source)
        extra = [os.path.join(HERE, f) for f in ("harness.c", "harness.h", "roof_loops.h")]
        if os.path.exists(out) and os.path.getmtime(out) >= newest(source, *extra):
            return out
        command = [compiler or os.environ.get("CC", "cc"), "-std=c11", "-O2", "-g1", source, extra[0], "-o", out, *flags, "-lpthread"]
        if not quiet_run(command, self.setup_log):
            raise Missing(f"{name} does not compile: see {self.setup_log}")
        return out

    def native_peer(self, peer, flags):
        source = f"peers/{peer}_peer.c"
        try:
            return self.compiled(f"{peer}_peer", source, *flags)
        except Missing:
            if not self.debian(DEBIAN[peer]):
                raise
            return self.compiled(f"{peer}_peer", source, *flags)

    def libtorch(self):
        """Compiled against the wheel's headers and libraries: a minute, once."""
        self.python_peer("libtorch")
        find = "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"
        torch = subprocess.run([self.python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
        out, source = os.path.join(self.build, "libtorch_peer"), os.path.join(HERE, "peers", "libtorch_peer.cpp")
        harness, wheel = os.path.join(HERE, "harness.c"), os.path.join(torch, "version.py")
        if os.path.exists(out) and os.path.getmtime(out) >= newest(source, harness, wheel):
            return out
        say("compiling the libtorch peer (a minute)")
        obj, lib = os.path.join(self.build, "harness.o"), os.path.join(torch, "lib")
        include = [f for d in ("include", "include/torch/csrc/api/include") for f in ("-isystem", os.path.join(torch, d))]
        if not (quiet_run([os.environ.get("CC", "cc"), "-std=c11", "-O2", "-c", harness, "-o", obj], self.setup_log) and
                quiet_run([os.environ.get("CXX", "c++"), "-std=c++20", "-O2", source, obj, *include, f"-L{lib}", f"-Wl,-rpath,{lib}",
                           "-ltorch", "-ltorch_cpu", "-lc10", "-o", out], self.setup_log)):
            raise Missing(f"the libtorch peer does not compile: see {self.setup_log}")
        return out

    def weft(self):
        """Weft's own worker, in a release build of its own."""
        build = os.path.join(self.build, "weft")
        make = ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DWEFT_BENCH=ON", "-DWEFT_TESTS=OFF"]
        say("building Weft")
        if not quiet_run(make, self.setup_log) or not quiet_run(["cmake", "--build", build, "--target", "weft_bench"], self.setup_log):
            raise Missing(f"weft_bench does not build: see {self.setup_log}")
        return os.path.join(build, "bench", "weft_bench")

    def command(self, peer):
        """What starts a peer, installed and compiled if need be."""
        script = os.path.join(HERE, "peers")
        if peer == "roof":
            return [self.compiled("roof", "roof.c", compiler=shutil.which("gcc"))]  # clang 14 drops the streaming stores
        if peer in DEBIAN:
            return [self.native_peer(peer, ["-lopenblas"] if peer == "openblas" else ["-fopenmp", "-ldnnl"])]
        if peer == "libtorch":
            return [self.libtorch()]
        self.python_peer(peer)
        if peer in ("ort", "openvino"):
            return [self.python, os.path.join(script, "onnx_peer.py"), peer]
        return [self.python, os.path.join(script, f"{peer}_peer.py")]
