# SPDX-License-Identifier: MIT
"""peers.py: starts and stops the systems that benches compare, each on a port and in a folder of
its own.

A system is a function that yields a Server between its start and its stop:

    with beanstalkd(folder, synced=True) as server:
        ... server.pid, server.at ...

Servers are children of the bench, stopped by their pid, and their folders removed. Nothing that is
installed or running on the machine is touched. To add a system, write the function here, what it
speaks under bench/http/ and a row in http.py.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

START_SECONDS = 20
STOP_SECONDS = 20


class Failure(Exception):
    """A sentence for whoever runs the bench."""


@dataclass
class Server:
    """A running system: the process to look at, and where it listens."""
    pid: int
    at: str


def free_port():
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def find_program(name):
    """The path of a program; PostgreSQL's are not in the PATH on Debian."""
    versions = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    found = shutil.which(name) or (str(versions[0]) if versions else None)
    if found is None:
        raise Failure(f"there is no '{name}' (script/bootstrap bench)")
    return found


def connect(at):
    """A connected socket; at is HOST:PORT or unix:PATH."""
    if at.startswith("unix:"):
        link = socket.socket(socket.AF_UNIX)
        link.connect(at[5:])
        return link
    host, port = at.rsplit(":", 1)
    return socket.create_connection((host, int(port)))


def wait_until_it_listens(process, at, log):
    """Returns once a connection is accepted; fails with the server's own words."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            connect(at).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"'{process.args[0]}' does not listen:\n"
                              + log.read_text(errors="replace")) from None
        time.sleep(0.002)


def stop(process, how=signal.SIGTERM):
    """Asks the process to end, and makes it end if it does not."""
    if process.poll() is None:
        process.send_signal(how)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise Failure(f"'{process.args[0]}' did not end when asked to") from None


@contextlib.contextmanager
def running(command, at, log, how=signal.SIGTERM, **options):
    """A server from when it listens until it has ended."""
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   **options)
    try:
        wait_until_it_listens(process, at, log)
        yield Server(process.pid, at)
        if process.poll() is not None:
            raise Failure(f"'{command[0]}' has ended:\n" + log.read_text(errors="replace"))
    finally:
        stop(process, how)


@contextlib.contextmanager
def scratch(where):
    """A new folder on a disk, removed at the end."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", where], capture_output=True, text=True,
                          check=True).stdout.strip()
    if kind in ("tmpfs", "ramfs"):
        raise Failure(f"'{where}' is in memory: nothing is on disk there")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dibs-bench-", dir=where))
    folder.chmod(0o755)  # PostgreSQL does not run as root
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def end_on_signals():
    """SIGTERM and SIGHUP end a bench as Ctrl-C does: servers are stopped, folders removed."""
    def end(number, _):
        sys.exit(128 + number)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


# ---- the systems ----


@contextlib.contextmanager
def dibs(program, folder, unix=False, keep=False):
    """The daemon of this project, as it comes; at its socket with unix. keep: its data stay in
    folder/dibs."""
    data = folder / "dibs"
    port = free_port()
    command = [program, "serve", "--listen", f"127.0.0.1:{port}", "--data", str(data), "--init"]
    at = f"unix:{data / 'dibs.sock'}" if unix else f"127.0.0.1:{port}"
    try:
        with running(command, at, folder / "log") as server:
            yield server
    finally:
        if not keep:
            shutil.rmtree(data, ignore_errors=True)


@contextlib.contextmanager
def beanstalkd(folder, synced, filling=False):
    """In memory, or with a log that is synced at every write. A server that only fills the log
    need not sync each job; the one that is measured reads the log when it starts."""
    log = folder / "beanstalkd"
    log.mkdir(exist_ok=True)
    port = free_port()
    command = [find_program("beanstalkd"), "-l", "127.0.0.1", "-p", str(port)]
    if synced:
        command += ["-b", str(log), "-f1000" if filling else "-f0"]
    try:
        with running(command, f"127.0.0.1:{port}", folder / "log") as server:
            yield server
    finally:
        if not filling:
            shutil.rmtree(log, ignore_errors=True)


@contextlib.contextmanager
def redis(folder, appendfsync):
    """With the append-only file and no snapshots."""
    data = folder / "redis"
    data.mkdir()
    port = free_port()
    command = [find_program("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--dir",
               str(data), "--save", "", "--appendonly", "yes", "--appendfsync", appendfsync]
    try:
        with running(command, f"127.0.0.1:{port}", folder / "log") as server:
            yield server
    finally:
        shutil.rmtree(data, ignore_errors=True)


@contextlib.contextmanager
def postgres(folder):
    """A cluster with the settings that initdb gives: fsync and synchronous_commit are on. It is
    made once in the folder and used again."""
    cluster = folder / "postgres"
    who = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
    if not cluster.exists():
        cluster.mkdir()
        if who:
            shutil.chown(cluster, "postgres", "postgres")
        command = [find_program("initdb"), "-D", str(cluster), "-U", "bench", "-A", "trust",
                   "--no-sync", "--encoding=UTF8", "--locale=C"]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, **who)
        if done.returncode != 0:
            raise Failure(done.stderr)
    port = free_port()
    command = [find_program("postgres"), "-D", str(cluster), "-p", str(port), "-k", str(cluster),
               "-c", "listen_addresses=127.0.0.1"]
    # SIGINT: do not wait for clients
    with running(command, f"127.0.0.1:{port}", folder / "log", signal.SIGINT, cwd="/",
                 **who) as server:
        wait_for_postgres(server, cluster)
        yield server


def wait_for_postgres(server, cluster):
    """It listens a little before it is ready; its lock file says when it is."""
    deadline = time.monotonic() + START_SECONDS
    while "ready" not in (cluster / "postmaster.pid").read_text():
        if time.monotonic() > deadline:
            raise Failure("PostgreSQL does not get ready")
        time.sleep(0.01)
    return server
