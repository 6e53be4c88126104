"""The runner of sandscript: a supervisor that never runs user code, and a worker that does.

Started as  python -I -u -B -X utf8 -c SOURCE run KEY=NUMBER... [scratch=FOLDER]   in the working folder of the code,
or as       python -I -c SOURCE guard COMMAND ARGUMENT...   which runs a command with an empty standard input and kills
it with all its descendants when the guard's own standard input ends; exit code as the command's, 128+n for a signal.

Frames, both ways: one byte type, four bytes length (big endian), body.
  to the supervisor   R cell number (u32), time limit in ms (u64), source     C number (u32), source to check     I interrupt
  from it             H version   S number   O/E bytes skipped before (u64), bytes   V value   F end of run   X number, check result
The end of standard input ends the supervisor and everything below it and removes the scratch folder.

Everything a worker says is untrusted: lengths are checked, sizes capped, nothing is evaluated or unpickled. The
supervisor imports little, for the start counts in every first answer; the worker imports the rest when it is needed.
"""

import sys

if sys.version_info < (3, 9):
    sys.exit("Python 3.9 or newer is needed, this is %d.%d" % sys.version_info[:2])

import _signal as signal
import _thread
import io
import os
import resource
import select
import time
from fcntl import F_DUPFD_CLOEXEC, fcntl

MIB = 1 << 20
WINDOW = 0.03  # seconds: pace of forwarding, fast enough to look immediate
WINDOW_BYTES = 256 << 10  # forwarded per stream and window; the rest of a flood is only counted
READ_BYTES = MIB  # one read; also the size asked for the pipes
QUEUE_BYTES = MIB  # output waits in the tail while this much is unread by the program
MESSAGE_BYTES = 6 * MIB  # one message of a worker: a figure of 5 MiB with its text fits
VALUES = 100  # values of one run
VALUES_BYTES = 64 * MIB  # and their size together
RESERVE_BYTES = 64 * MIB  # address space beyond the limit, for telling of a MemoryError and for what comes after it
COMMAND_BYTES = 4 * MIB  # one command of the program
GRACE = 2.0  # seconds from the interrupt to the kill
SWEEP_SECONDS = 2.0  # longest hunt for descendants
CHECK_SECONDS = 5.0  # time limit of a compile check
TEXT_BYTES = 8 << 10  # text form of a value
FIGURES = 10  # figures of one cell
PNG_BYTES = 5 * MIB  # one figure
TABLE_ROWS, TABLE_COLUMNS, CELL_CHARS = 200, 50, 200
REMOVE_DEPTH = 50  # folders open at once while a folder is removed: far below the usual limits of files and recursion
SPARE_FILES = 4  # an import has a folder and a file open, and what is read in it opens more
FAST_WRITES = 1000  # writes within a window that turn block buffering on: more than a person reads, 3 ms of overhead
BLOCK_BYTES = 64 << 10  # block in that mode
SLOW_WINDOWS = 10  # quiet windows that turn it off again
WORKSPACE = os.getcwd()
LINUX = sys.platform.startswith("linux")
monotonic = time.monotonic


# ---- processes -------------------------------------------------------------------------------------------------------

LIBC = None


def prctl(option, value):
    if LIBC:
        LIBC.prctl(option, value, 0, 0, 0)


PDEATHSIG, DUMPABLE, SUBREAPER, NO_NEW_PRIVS = 1, 4, 36, 38


def harden():
    """Own session, so no terminal; unreadable for the worker; parent of whatever gets orphaned below."""
    global LIBC
    try:
        os.setsid()
    except OSError:
        pass
    if LINUX:
        try:
            import ctypes

            LIBC = ctypes.CDLL(None)
        except (ImportError, OSError):
            return
        prctl(DUMPABLE, 0)
        prctl(SUBREAPER, 1)
        prctl(NO_NEW_PRIVS, 1)


def slurp(path):
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""
    finally:
        os.close(fd)


def all_parents():
    """Every process with its parent, where the kernel lists no children."""
    if LINUX:
        for name in os.listdir("/proc"):
            if name.isdigit():
                fields = slurp("/proc/%s/stat" % name).rpartition(b")")[2].split()
                if fields:
                    yield int(name), int(fields[1])
    else:
        import subprocess

        listing = subprocess.run(["/bin/ps", "-axo", "pid=,ppid="], capture_output=True).stdout
        for line in listing.splitlines():
            pid, parent = line.split()
            yield int(pid), int(parent)


LISTS_CHILDREN = LINUX and os.path.exists("/proc/self/task/%d/children" % os.getpid())


def children(pid):
    if not LISTS_CHILDREN:
        return [child for child, parent in all_parents() if parent == pid]
    try:
        tasks = os.listdir("/proc/%d/task" % pid)
    except OSError:
        return []
    return [int(child) for task in tasks for child in slurp("/proc/%d/task/%s/children" % (pid, task)).split()]


def ended(pid):
    """Whether a process is a zombie or gone."""
    return LINUX and slurp("/proc/%d/stat" % pid).rpartition(b")")[2].split()[:1] in ([], [b"Z"], [b"X"])


def kill(pid, number):
    if pid > 1:
        try:
            os.kill(pid, number)
        except OSError:
            pass


def descendants(keep):
    """Everything below this process but `keep`, stopped so that it can neither fork nor reap while we look."""
    found, todo = [], [os.getpid()]
    while todo:
        for pid in children(todo.pop()):
            todo.append(pid)
            if pid not in keep and not ended(pid):
                kill(pid, signal.SIGSTOP)
                found.append(pid)
    return found


def sweep(reap, keep=()):
    """Kills all descendants but `keep`, whatever session they moved to. They are killed before they are reaped, so a
    number cannot have passed to a stranger. Two clean passes: an orphan may come up to us behind the first."""
    clean, until = 0, monotonic() + SWEEP_SECONDS
    while clean < 2 and monotonic() < until:
        found = descendants(keep)
        for pid in found:
            kill(pid, signal.SIGKILL)
        clean = 0 if found else clean + 1
        if found:
            time.sleep(0.001)
        reap()


def watch_children():
    """A pipe that becomes readable when a child ends or we are asked to end."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    return read_end


def exit_code(status):
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def guard(command):
    harden()
    woken = watch_children()
    child = os.fork()
    if child == 0:
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, ("%s: %s\n" % (command[0], error.strerror)).encode())
        os._exit(127)
    statuses = {}

    def reap():
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                statuses[pid] = status
        except ChildProcessError:
            pass

    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while child not in statuses:
        for fd, _ in poll.poll():
            data = os.read(fd, 4096)
            if fd == 0 and not data or fd == woken and any(number != signal.SIGCHLD for number in data):
                sweep(reap)
                os._exit(128 + signal.SIGKILL)
        reap()
    sweep(reap)
    os._exit(exit_code(statuses[child]))


# ---- frames ----------------------------------------------------------------------------------------------------------


def frame(kind, body):
    return kind + len(body).to_bytes(4, "big") + body


def take_frame(buffer, limit):
    """The first whole frame of a buffer, None if there is none yet. ValueError for a length above the limit."""
    if len(buffer) < 5:
        return None
    size = int.from_bytes(buffer[1:5], "big")
    if size > limit:
        raise ValueError("frame of %d bytes" % size)
    if len(buffer) < 5 + size:
        return None
    found = bytes(buffer[:1]), bytes(buffer[5 : 5 + size])
    del buffer[: 5 + size]
    return found


def read_some(fd, size=READ_BYTES):
    """Bytes, b"" at the end, None when there is nothing now."""
    try:
        return os.read(fd, size)
    except BlockingIOError:
        return None
    except OSError:
        return b""


class Queue:
    """Bytes on their way into a pipe that must never make us wait."""

    def __init__(self, fd):
        self.fd = fd
        self.data = bytearray()
        os.set_blocking(fd, False)

    def put(self, data):
        self.data += data
        self.push()

    def push(self):
        try:
            while self.data:
                del self.data[: os.write(self.fd, self.data)]
        except BlockingIOError:
            pass
        except OSError:
            self.data.clear()  # nobody reads any more; the end of the other side is noticed elsewhere


class Stream:
    """One stream of the worker: forwards what fits into the window, else keeps the tail and counts the rest."""

    def __init__(self, kind, fd, outbox):
        self.kind, self.fd, self.outbox = kind, fd, outbox
        self.closed = False
        os.set_blocking(fd, False)
        self.reset()

    def reset(self):
        self.total = self.skipped = 0
        self.tail = b""
        self.window, self.room = 0.0, 0

    def read(self):
        data = read_some(self.fd)
        if data is None:
            return False
        if data:
            self.total += len(data)
            self.tail = data if not self.tail else self.tail + data
            self.forward(monotonic())
        else:
            self.closed = True
        return bool(data)

    def forward(self, now, force=False):
        if now - self.window >= WINDOW:
            self.window, self.room = now, WINDOW_BYTES
        over = len(self.tail) - WINDOW_BYTES
        if over > 0:
            self.skipped += over
            self.tail = self.tail[over:]
        if not self.tail and not self.skipped:
            return
        if not force and (len(self.tail) > self.room or len(self.outbox.data) > QUEUE_BYTES):
            return
        self.room -= len(self.tail)
        self.outbox.put(frame(self.kind, self.skipped.to_bytes(8, "big") + self.tail))
        self.tail, self.skipped = b"", 0

    def drain(self):
        """Everything that is in the pipe now; bounded, should somebody still write."""
        until = self.total + 4 * MIB
        while not self.closed and self.total < until and self.read():
            pass
        self.forward(monotonic(), force=True)


# ---- the supervisor --------------------------------------------------------------------------------------------------


class Worker:
    """What the supervisor holds of a worker."""

    def __init__(self, limits, outbox):
        ends = [os.pipe() for _ in range(4)]
        (out, out_end), (err, err_end), (said, said_end), (told_end, told) = ends
        for _, end in ends[:2]:
            try:
                fcntl(end, 1031, READ_BYTES)  # F_SETPIPE_SZ: fewer switches in a flood
            except OSError:
                pass
        self.pid = os.fork()
        if self.pid == 0:
            work(limits, told_end, said_end, out_end, err_end)
        for end in (out_end, err_end, said_end, told_end):
            os.close(end)
        self.streams = [Stream(b"O", out, outbox), Stream(b"E", err, outbox)]
        self.said, self.buffer, self.silent = said, bytearray(), False
        os.set_blocking(said, False)
        self.told = Queue(told)
        self.unfit = "it ended before it was ready"  # why it is of no use
        self.up = False  # it said that its set-up worked; code runs only then
        self.status = None  # once it is reaped: wait status and peak in bytes
        self.cells = 0  # cells it has finished
        self.names = False  # variables of theirs live in it
        self.interrupted = False  # an interrupt of the last cell may still be on its way

    def kill(self, number):
        """Never once it is reaped: the process number may be a stranger's."""
        if self.status is None:
            kill(self.pid, number)

    def close(self):
        for fd in (self.streams[0].fd, self.streams[1].fd, self.said, self.told.fd):
            os.close(fd)


class Run:
    """The cell that runs now."""

    def __init__(self, number, limit, now):
        self.number, self.started, self.deadline = number, now, now + limit
        self.reason = None  # why we stop it, recorded before we do
        self.kill_at = None
        self.killed = False
        self.values = self.value_bytes = 0
        self.notes = []


class Check:
    """A compile check in a fork of its own."""

    def __init__(self, limits, command):
        self.number, source = command[:4], command[4:]
        self.fd, end = os.pipe()
        self.buffer, self.deadline = bytearray(), monotonic() + CHECK_SECONDS
        self.pid = os.fork()
        if self.pid == 0:
            try:
                (end,) = forget_supervisor(end)
                set_limits(dict(limits, fsize=0))
                resource.setrlimit(resource.RLIMIT_CPU, (int(CHECK_SECONDS), int(CHECK_SECONDS) + 1))
                os.write(end, look_at(source))
            finally:
                os._exit(0)
        os.close(end)

    def finish(self):
        kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        return bytes(self.buffer) or b"1\nit is too much to compile: larger, deeper or slower than the limits allow\n"


class Supervisor:
    def __init__(self, limits):
        self.limits = limits
        self.woken = watch_children()
        self.outbox = Queue(1)
        self.commands = bytearray()
        self.waiting = []  # commands to check a source
        self.run = self.check = None
        self.lost = False  # variables went while no cell ran
        self.worker = Worker(limits, self.outbox)
        self.outbox.put(frame(b"H", b"%d.%d.%d" % sys.version_info[:3]))

    def loop(self):
        """Rounds of what is ready, then what is due. Returns whether the program is gone; otherwise we were told to end."""
        while True:
            worker = self.worker
            poll = select.poll()
            poll.register(0, select.POLLIN)
            poll.register(self.woken, select.POLLIN)
            for stream in worker.streams:
                if not stream.closed:
                    poll.register(stream.fd, select.POLLIN)
            if not worker.silent:
                poll.register(worker.said, select.POLLIN)
            for queue in (self.outbox, worker.told):
                if queue.data:
                    poll.register(queue.fd, select.POLLOUT)
            if self.check:
                poll.register(self.check.fd, select.POLLIN)
            ready = {fd for fd, _ in poll.poll(self.patience())}
            if self.woken in ready:
                if any(number != signal.SIGCHLD for number in os.read(self.woken, 4096)):
                    return False
            if 0 in ready and not self.obey():
                return True
            for queue in (self.outbox, worker.told):
                queue.push()
            if self.check and self.check.fd in ready:
                self.read_check()
            for stream in worker.streams:
                if stream.fd in ready and not stream.closed:
                    stream.read()
            if worker.said in ready and not worker.silent:
                self.listen()
            self.reap()
            self.due()

    def patience(self):
        """Milliseconds until something is due, None if nothing is."""
        due = [self.check.deadline] if self.check else []
        if self.run:
            due.append(self.run.kill_at if self.run.reason else self.run.deadline)
            due += [s.window + WINDOW for s in self.worker.streams if s.tail or s.skipped]
        due = [moment for moment in due if moment is not None]
        return max(0, int(min(min(due) - monotonic(), 3600) * 1000) + 1) if due else None

    def obey(self):
        data = read_some(0)
        if not data:
            return False
        self.commands += data
        while True:
            found = take_frame(self.commands, COMMAND_BYTES)
            if found is None:
                return True
            kind, body = found
            if kind == b"R" and self.run is None:
                self.start(body)
            elif kind == b"C":
                self.waiting.append(body)
                self.next_check()
            elif kind == b"I" and self.run:
                self.stop("cancelled")

    # -- checks
    def next_check(self):
        if self.check is None and self.waiting:
            self.check = Check(self.limits, self.waiting.pop(0))

    def read_check(self):
        data = read_some(self.check.fd, 65536)
        if data and len(self.check.buffer) < MIB:
            self.check.buffer += data
        else:
            self.end_check()

    def end_check(self):
        check, self.check = self.check, None
        self.outbox.put(frame(b"X", check.number + check.finish()))
        self.next_check()

    # -- cells
    def start(self, body):
        number, limit = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:12], "big") / 1000
        self.reap()
        if self.worker.status is not None:  # it went between two cells
            self.lost = self.lost or self.worker.names
            self.replace()
        worker = self.worker
        for stream in worker.streams:
            stream.reset()
        proc = "/proc/%d/" % worker.pid
        try:
            fields = slurp(proc + "stat").rpartition(b")")[2].split()
            used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            hard = resource.prlimit(worker.pid, resource.RLIMIT_CPU)[1]
            resource.prlimit(worker.pid, resource.RLIMIT_CPU, (int(used + limit + GRACE) + 2, hard))
            if os.getuid() != 0:  # anew for each run: it counts all that the person runs besides
                hard = resource.prlimit(worker.pid, resource.RLIMIT_NPROC)[1]
                most = threads_of_user() + self.limits["procs"]
                resource.prlimit(worker.pid, resource.RLIMIT_NPROC, (most if hard < 0 else min(most, hard), hard))
            with open(proc + "clear_refs", "wb", 0) as file:
                file.write(b"5")  # peak memory counts from here
        except (OSError, ValueError, IndexError, AttributeError, OverflowError):
            pass  # not this system, or it hides itself: the wall clock holds
        self.outbox.put(frame(b"S", body[:4]))
        self.run = Run(number, limit, monotonic())
        worker.told.put(frame(b"R", bytes((worker.interrupted,)) + body[:4] + body[12:]))
        worker.kill(signal.SIGCONT)

    def stop(self, reason):
        """First an interrupt, which leaves the variables; two seconds later or when asked again the kill."""
        run = self.run
        if run.reason is None:
            run.reason, run.kill_at = reason, monotonic() + GRACE
            self.worker.kill(signal.SIGINT)
            self.worker.kill(signal.SIGCONT)
        else:
            run.killed, run.kill_at = True, None
            self.worker.kill(signal.SIGKILL)

    def due(self):
        now, run = monotonic(), self.run
        if self.check and now >= self.check.deadline:
            self.end_check()
        if run is None:
            return
        for stream in self.worker.streams:
            if now - stream.window >= WINDOW:
                stream.forward(now)
        if self.worker.status is not None:
            if not self.worker.silent:
                self.listen()  # its last words were written before its end
            if self.run:
                self.died()
        elif run.reason is None and any(s.total > self.limits["output"] for s in self.worker.streams):
            self.stop("output")
        elif run.reason is None and now >= run.deadline:
            self.stop("time")
        elif run.reason and not run.killed and now >= run.kill_at:
            self.stop(run.reason)

    def listen(self):
        """Messages of the worker. Anything but values and one end is a breach and costs it its life."""
        worker = self.worker
        data = read_some(worker.said)
        if not data:
            worker.silent = data is not None
            return
        worker.buffer += data
        try:
            while True:
                found = take_frame(worker.buffer, MESSAGE_BYTES)
                if found is None:
                    return
                kind, body = found
                if kind == b"U" and not worker.up:
                    worker.up, worker.unfit = not body, body.decode("utf-8", "replace")
                    continue
                if self.run is None:
                    raise ValueError("nothing was asked")
                if kind == b"V":
                    self.value(body)
                elif kind == b"D" and len(body) < 64:
                    code, names, memory, late = (int(word) for word in body.split())
                    return self.done(code & 255, bool(names), bool(memory), bool(late))
                else:
                    raise ValueError("type %r" % kind)
        except ValueError:
            worker.silent = True
            if self.run:
                self.run.reason, self.run.killed = self.run.reason or "breach", True
            worker.kill(signal.SIGKILL)

    def value(self, body):
        run = self.run
        run.values += 1
        run.value_bytes += len(body)
        if run.values > VALUES or run.value_bytes > VALUES_BYTES:
            if "too many values were shown; the rest was left out" not in run.notes:
                run.notes.append("too many values were shown; the rest was left out")
            return
        for stream in self.worker.streams:
            stream.drain()  # what was printed before it comes before it
        self.outbox.put(frame(b"V", body))

    def done(self, code, names, memory, late):
        worker, run = self.worker, self.run
        worker.kill(signal.SIGSTOP)
        took = monotonic() - run.started
        sweep(self.reap, self.spared())
        worker.cells += 1
        worker.names, worker.interrupted = names, run.reason is not None
        if memory:
            run.notes.append("the memory limit is %d MiB" % (self.limits["memory"] // MIB))
        if late:
            run.notes.append("a thread of an earlier cell was still running; some of the output is its")
        peak = worker.status[1] if worker.status else 0
        for line in slurp("/proc/%d/status" % worker.pid).splitlines():
            if line.startswith(b"VmHWM:"):
                peak = int(line.split()[1]) * 1024
        lost = self.lost
        worker.buffer += read_some(worker.said) or b""
        if worker.silent or worker.buffer or any(stream.closed for stream in worker.streams):
            # It closed its pipes, or spoke after the end, which must not become the end of the next cell.
            lost = self.bury() or lost
        self.finish(run.reason or "exited %d" % code, took, peak, lost)

    def died(self):
        worker, run = self.worker, self.run
        status, peak = worker.status
        took = monotonic() - run.started
        sweep(self.reap, self.spared())
        if run.reason:
            outcome = run.reason
        elif not worker.up:
            outcome = "unfit " + worker.unfit
        elif os.WIFEXITED(status):
            outcome = "exited %d" % os.WEXITSTATUS(status)
        elif os.WTERMSIG(status) == signal.SIGXCPU:
            outcome = "cpu"
        else:
            outcome = "signaled %d" % os.WTERMSIG(status)
            if os.WTERMSIG(status) == signal.SIGKILL:
                run.notes.append("something outside killed it; perhaps the system ran out of memory")
        self.finish(outcome, took, peak, worker.names or self.lost)
        self.replace()

    def finish(self, outcome, took, peak, lost):
        for stream in self.worker.streams:
            stream.drain()
        lines = ["outcome " + outcome, "took %d" % (took * 1000), "peak %d" % peak, "lost %d" % lost]
        lines += ["note " + note for note in self.run.notes]
        self.run, self.lost = None, False
        self.outbox.put(frame(b"F", "\n".join(lines).encode()))

    def spared(self):
        return {self.worker.pid, self.check.pid if self.check else 0}

    def bury(self):
        """Kills the worker, waits for its end and says whether variables went with it."""
        worker = self.worker
        lost, worker.names = worker.names, False
        worker.kill(signal.SIGKILL)
        until = monotonic() + SWEEP_SECONDS
        while worker.status is None and monotonic() < until:
            time.sleep(0.001)
            self.reap()
        return lost

    def replace(self):
        sweep(self.reap, {self.check.pid} if self.check else ())
        self.worker.close()
        self.worker = Worker(self.limits, self.outbox)
        return self.worker

    def reap(self):
        worker = self.worker
        try:
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == worker.pid:
                    worker.status = status, usage.ru_maxrss * (1024 if LINUX else 1)
                elif self.check and pid == self.check.pid:
                    self.check.pid = 0
        except ChildProcessError:
            pass


# ---- what every fork does first --------------------------------------------------------------------------------------


def forget_supervisor(*ends):
    """Drops everything of the supervisor and moves the pipe ends out of the way of code that closes or writes to all
    descriptors; returns their new numbers."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    supervisor = os.getppid()
    prctl(PDEATHSIG, signal.SIGKILL)
    prctl(DUMPABLE, 1)
    if os.getppid() != supervisor:
        os._exit(1)
    os.setsid()
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    base = (1024 if soft < 0 or soft > 1024 else soft) - len(ends) - 4
    moved = [fcntl(end, F_DUPFD_CLOEXEC, base) for end in ends]
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, base)
    return moved


def set_limits(limits):
    def bound(name, value, reserve=0):
        try:
            number = getattr(resource, name)
            hard = resource.getrlimit(number)[1]
            value = value if hard < 0 else min(value, hard)
            resource.setrlimit(number, (value, value + reserve if hard < 0 else min(value + reserve, hard)))
        except (AttributeError, OSError, ValueError):
            pass  # best effort: the capabilities say so

    bound("RLIMIT_CORE", 0)
    bound("RLIMIT_FSIZE", limits["fsize"])
    bound("RLIMIT_NOFILE", limits["files"])
    bound("RLIMIT_AS", limits["memory"] + 256 * MIB + 64 * MIB * limits["threads"], RESERVE_BYTES)


def threads_of_user():
    """Processes and threads of this user, as the kernel counts them against RLIMIT_NPROC."""
    count = 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat("/proc/" + name).st_uid == os.getuid():
                count += os.stat("/proc/%s/task" % name).st_nlink - 2
        except OSError:
            pass
    return count


def look_at(source):
    """Line and message of the first error (0 and nothing if it compiles), then the modules it imports."""
    import _ast

    try:
        text = source.decode()
        tree = compile(text, "<cell>", "exec", 0x400, True)  # 0x400: only the syntax tree
        compile(text, "<cell>", "exec", 0, True)
    except SyntaxError as error:
        return ("%d\n%s\n" % (error.lineno or 1, " ".join(str(error.msg).split()))).encode("utf-8", "replace")
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return ("1\n%s\n" % " ".join((str(error) or type(error).__name__).split())).encode("utf-8", "replace")
    names, todo = set(), [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, _ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, _ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
        for field in node._fields:
            inner = getattr(node, field, None)
            todo += [n for n in (inner if isinstance(inner, list) else [inner]) if isinstance(n, _ast.AST)]
    return "\n".join(["0", ""] + sorted(names)).encode("utf-8", "replace")[:32768]


# ---- the worker ------------------------------------------------------------------------------------------------------


class Out(io.BufferedIOBase):
    """Writes through, so that nothing is lost by a kill; a flood turns block buffering on, with a thread that empties
    the block every window, and quiet turns it off again."""

    def __init__(self, fd, name):
        self.fd, self.lock = fd, _thread.RLock()
        self.block, self.fast, self.written = bytearray(), False, 0
        self.window, self.writes = 0.0, 0
        self.pacer, self.old, self.late = 0, (), False  # our thread, those of earlier cells, whether one of them wrote
        self.text = io.TextIOWrapper(self, "utf-8", "backslashreplace", newline="\n", write_through=True)
        self.text.mode = "w"
        self.name = name

    def writable(self):
        return True

    def fileno(self):
        return self.fd

    def close(self):
        self.flush()  # the descriptor stays: others may print after a close

    def write(self, data):
        with memoryview(data) as view, view.cast("B") as octets, self.lock:
            if self.old and _thread.get_ident() in self.old:
                self.late = True
            if self.fast:
                self.written += 1
                self.block += octets
                if len(self.block) >= BLOCK_BYTES:
                    self.flush()
            else:
                self.through(octets)
                self.pace()
            return len(octets)

    def through(self, octets):
        done = 0
        while done < len(octets):
            done += os.write(self.fd, octets[done:])

    def flush(self):
        with self.lock:
            block, self.block = self.block, bytearray()
            if block:
                with memoryview(block) as octets:
                    self.through(octets)

    def pace(self):
        now = monotonic()
        if now - self.window > WINDOW:
            self.window, self.writes = now, 0
        self.writes += 1
        if self.writes > FAST_WRITES:
            self.fast = True
            try:
                _thread.start_new_thread(self.empty, ())
            except RuntimeError:
                self.fast, self.writes = False, 0  # no more threads: go on writing through

    def empty(self):
        self.pacer = _thread.get_ident()
        try:
            self.text.reconfigure(write_through=False)
            quiet = 0
            while quiet < SLOW_WINDOWS:
                before = self.written
                time.sleep(WINDOW)
                self.text.flush()
                quiet = quiet + 1 if self.written == before else 0
            self.text.reconfigure(write_through=True)
        except (OSError, ValueError):
            pass  # closed under us
        with self.lock:
            self.fast, self.writes = False, 0
            self.flush()

    def after_fork(self):
        self.lock = _thread.RLock()
        if self.fast:  # the thread did not come along
            self.fast, self.writes = False, 0
            self.text.reconfigure(write_through=True)


class Cells:
    """The worker's side: runs cells in one namespace and says what came of them."""

    def __init__(self, said, out_end, err_end):
        import builtins

        self.said, self.ends, self.pid = said, (out_end, err_end), os.getpid()
        self.lock = _thread.RLock()
        self.sources = {}  # by name, for tracebacks
        self.running = self.asked = False
        self.outs = [Out(1, "<stdout>"), Out(2, "<stderr>")]
        os.register_at_fork(after_in_child=lambda: [out.after_fork() for out in self.outs])
        main = type(sys)("__main__")
        sys.modules["__main__"] = main
        self.names = main.__dict__
        self.names["__builtins__"] = builtins
        self.own = len(self.names)
        builtins.display = self.display
        builtins.input = no_input
        self.builtins = builtins
        sys.meta_path.insert(0, Hooks({"matplotlib.pyplot": self.hook_show, "linecache": self.hook_lines}))
        sys.argv = [""]
        sys.path.append(WORKSPACE)

    def restore(self):
        """Undoes what an earlier cell did to the streams and to the interrupt."""
        for fd, end in enumerate(self.ends, 1):
            try:
                os.dup2(end, fd)
            except OSError:
                pass
        for index, name in ((0, "stdout"), (1, "stderr")):
            if self.outs[index].text.closed:
                self.outs[index] = Out(index + 1, "<%s>" % name)
            setattr(sys, name, self.outs[index].text)
            setattr(sys, "__%s__" % name, self.outs[index].text)
        signal.signal(signal.SIGINT, self.on_interrupt)
        if "importlib" in sys.modules:
            sys.modules["importlib"].invalidate_caches()

    def on_interrupt(self, number, where):
        if self.running:
            raise KeyboardInterrupt
        self.asked = True

    def run(self, stale, number, source):
        if stale:
            self.asked = False  # that was for the cell before
        self.restore()
        name = "<cell %d>" % number
        old = set(sys._current_frames()) - {_thread.get_ident()} - {out.pacer for out in self.outs}
        for out in self.outs:
            out.old, out.late = old, False
        code, memory = 0, False
        for part in (lambda: self.execute(source, name), self.figures):
            try:
                self.running = True
                if self.asked:
                    self.asked = False
                    raise KeyboardInterrupt
                part()
                self.running = False
            except BaseException as error:
                self.running = False
                memory = memory or isinstance(error, MemoryError)
                code = self.failed(error) or code
                del error
        self.flush()
        if os.getpid() != self.pid:
            os._exit(code)  # a fork of the code came back to us: it has no more to say
        names = len(self.names) > self.own
        self.send(b"D", b"%d %d %d %d" % (code, names, memory, any(out.late for out in self.outs)), code)

    def execute(self, source, name):
        import _ast

        text = source.decode()
        self.sources[name] = text
        if "linecache" in sys.modules:
            self.hook_lines(sys.modules["linecache"])
        last = None
        try:
            tree = compile(text, name, "exec", 0x400, True)
            if tree.body and isinstance(tree.body[-1], _ast.Expr):
                last = compile(_ast.Expression(tree.body.pop().value), name, "eval", 0, True)
            code = compile(tree, name, "exec", 0, True)
        except SyntaxError as error:
            if error.text is None and error.lineno:  # found in the tree, where the text is not known
                error.text = text.splitlines()[error.lineno - 1]
            raise
        exec(code, self.names)
        if last is not None:
            value = eval(last, self.names)
            if value is not None:
                self.builtins._ = value
                self.show(value, True)

    def flush(self):
        for out in self.outs:
            try:
                out.text.flush()
            except (OSError, ValueError):
                pass

    def failed(self, error):
        """Tells of an exception as Python would, without frames that are not the code's; returns the exit code."""
        if isinstance(error, MemoryError):
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        self.flush()
        if isinstance(error, SystemExit):
            code = error.code
            if code is None or isinstance(code, int):
                return (code or 0) & 255
        text = type(error).__name__ + "\n"
        try:
            text = "%s\n" % code if isinstance(error, SystemExit) else describe(error)
        except BaseException as second:
            if isinstance(second, Exception) and type(error).__module__ == "builtins":
                text = "%s: %s\n" % (type(error).__name__, error.args)  # the code broke what describing needs
        try:
            with self.outs[1].lock:
                self.outs[1].flush()
                self.outs[1].through(memoryview(text.encode("utf-8", "backslashreplace")))
        except OSError:
            pass
        return 130 if isinstance(error, KeyboardInterrupt) else 1

    # -- hooks
    def hook_lines(self, linecache):
        """Tracebacks show lines of the cells. Not at the start: the module takes longer to import than Python to start."""
        for name, text in self.sources.items():
            linecache.cache[name] = len(text), None, text.splitlines(True), name

    def hook_show(self, pyplot):
        def show(*_, **__):  # pyplot wants a plain function here
            self.figures()

        pyplot.show = show

    # -- values
    def send(self, kind, body, code=0):
        data = memoryview(frame(kind, body))
        with self.lock:
            try:
                while data:
                    data = data[os.write(self.said, data) :]
            except OSError:
                os._exit(code)  # the code closed our pipe: the exit says how it ended

    def display(self, *values, **_):
        """Shows values in the output."""
        for value in values:
            self.show(value, False)

    def show(self, value, last):
        if os.getpid() != self.pid:
            return
        text, table, png = forms(value)
        self.emit(last, text, table, png)

    def emit(self, last, text, table, png):
        self.flush()
        body = b"\1" if last else b"\0"
        for kind, form in ((b"T", cut(text)), (b"J", table), (b"P", png)):
            if form and len(body) + len(form) < MESSAGE_BYTES - 64:
                body += frame(kind, form)
        self.send(b"V", body)

    def figures(self):
        """Takes every open figure; also what `pyplot.show` does."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None or os.getpid() != self.pid or not hasattr(pyplot, "get_fignums"):
            return
        numbers = pyplot.get_fignums()
        for number in numbers[:FIGURES]:
            figure = pyplot.figure(number)
            self.emit(False, str(figure), None, draw(figure))
        if len(numbers) > FIGURES:
            sys.stderr.write("only the first %d of %d figures are shown\n" % (FIGURES, len(numbers)))
        pyplot.close("all")


def no_input(prompt="", /):
    raise EOFError("no standard input here: put the value into the code")


class Hooks:
    """Does something right after a module was imported; never imports one by itself."""

    def __init__(self, after):
        self.after = after

    def find_spec(self, name, path=None, target=None):
        then = self.after.get(name)
        if then is None:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                then(module)

            spec.loader.exec_module = exec_module
        return spec


def describe(error):
    import traceback

    def trim(story):
        """Keeps the frames of the code itself, and of causes only those that passed through it."""
        # Names of compiled modules are relative, those of modules in the working folder are not.
        mine = [entry for entry in story.stack if entry.filename.startswith(("<cell ", WORKSPACE + os.sep))]
        story.stack[:] = mine
        for link in ("__cause__", "__context__"):
            inner = getattr(story, link, None)
            if inner is not None and not trim(inner):
                setattr(story, link, None)
        for inner in getattr(story, "exceptions", None) or ():
            trim(inner)
        return bool(mine)

    try:
        story = traceback.TracebackException(type(error), error, error.__traceback__)
        trim(story)
        if not story.stack:
            text = "".join(story.format_exception_only())
        else:
            text = "".join(story.format())
    except BaseException:
        text = "".join(traceback.format_exception_only(type(error), error))
    if isinstance(error, PermissionError) and isinstance(error.filename, str):
        if os.path.normpath(os.path.join(WORKSPACE, error.filename)).startswith(WORKSPACE + os.sep):
            text += "hint: input files are read-only here; write to another name\n"
    return text


def cut(text):
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= TEXT_BYTES:
        return data
    kept = data[: TEXT_BYTES - 48].decode("utf-8", "ignore")
    return ("%s\n... (%d more bytes)" % (kept, len(data) - len(kept.encode()))).encode()


def forms(value):
    """Text, table (JSON) and PNG of a value; the last two where it has them."""
    pandas = sys.modules.get("pandas")
    frames = tuple(kind for kind in (getattr(pandas, "DataFrame", None), getattr(pandas, "Series", None)) if kind)
    if frames and isinstance(value, frames):
        try:
            return frame_text(value), frame_table(value), None
        except Exception:
            return repr(value), None, None
    figures = sys.modules.get("matplotlib.figure")
    if figures is not None and isinstance(value, getattr(figures, "Figure", ())):
        png = draw(value)
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None:
            pyplot.close(value)
        return str(value), None, png
    return repr(value), None, own_png(value)


def own_png(value):
    """What the value itself offers as a PNG."""
    kind = type(value)
    if hasattr(kind, "_repr_mimebundle_"):
        bundle = value._repr_mimebundle_()
        bundle = bundle[0] if isinstance(bundle, tuple) else bundle
        png = bundle.get("image/png") if isinstance(bundle, dict) else None
    elif hasattr(kind, "_repr_png_"):
        png = value._repr_png_()
    else:
        return None
    if isinstance(png, tuple):
        png = png[0]
    if isinstance(png, str):
        from binascii import a2b_base64

        png = a2b_base64(png)
    return png if isinstance(png, bytes) and len(png) <= PNG_BYTES else None


def draw(figure):
    """PNG of a figure; once more coarsely if it is too large."""
    for dpi in (figure.dpi, 50):
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=dpi, bbox_inches="tight")
        if buffer.tell() <= PNG_BYTES:
            return buffer.getvalue()
    return None


def frame_text(value):
    """All columns and as many rows as fit, from both ends."""
    for rows in (60, 20, 10, 4):
        if hasattr(value, "columns"):
            text = value.to_string(max_rows=rows, max_cols=TABLE_COLUMNS, max_colwidth=50)
            if len(value) > rows or len(value.columns) > TABLE_COLUMNS:
                text += "\n\n[%d rows x %d columns]" % value.shape
        else:
            text = value.to_string(max_rows=rows, length=True, dtype=True, name=True)
        if len(text.encode("utf-8", "replace")) <= TEXT_BYTES:
            break
    return text


def frame_table(value):
    import json

    def label(key):
        return (" / ".join(map(str, key)) if isinstance(key, tuple) else str(key))[:CELL_CHARS]

    table = value if hasattr(value, "columns") else value.to_frame("" if value.name is None else value.name)
    index, total = table.index, table.shape
    some = table.iloc[:TABLE_ROWS, :TABLE_COLUMNS]
    names = " / ".join("" if name is None else str(name) for name in index.names).strip(" /")
    columns = [(names[:CELL_CHARS], str(getattr(index, "dtype", "object")))]
    columns += [(label(key), str(kind)) for key, kind in zip(some.columns, some.dtypes)]
    cells = [[label(key) for key in some.index]]
    cells += [[str(v)[:CELL_CHARS] for v in some.iloc[:, i].tolist()] for i in range(some.shape[1])]
    body = {"columns": columns, "rows": list(zip(*cells)), "total_rows": total[0], "total_columns": total[1]}
    return json.dumps(body).encode()


def fault(limits, cells):
    """What makes a worker with these limits useless, so that it does not run code and stay silent."""
    try:
        for fd, end in enumerate(cells.ends, 1):
            os.dup2(end, fd)
        for fd in [os.dup(0) for _ in range(SPARE_FILES)]:
            os.close(fd)
    except OSError as error:
        return "%s with %d open files" % (error.strerror, limits["files"])
    return ""


def work(limits, told_end, said_end, out_end, err_end):
    """The life of a worker; never returns."""
    try:
        told, said, out, err = forget_supervisor(told_end, said_end, out_end, err_end)
        set_limits(limits)
        os.makedirs(WORKSPACE, 0o700, exist_ok=True)  # code before us may have removed it
        os.chdir(WORKSPACE)
        cells = Cells(said, out, err)
        found = fault(limits, cells).encode()
        cells.send(b"U", found)
        if found:
            os._exit(1)
        buffer = bytearray()
        while True:
            found = take_frame(buffer, COMMAND_BYTES)
            if found is None:
                data = os.read(told, 65536)
                if not data:
                    os._exit(0)
                buffer += data
            else:
                cells.run(found[1][0], int.from_bytes(found[1][1:5], "big"), found[1][5:])
    finally:
        os._exit(1)  # only a failure of our own comes here


# ---- the start -------------------------------------------------------------------------------------------------------


def remove(folder):
    """Removes a folder without following links, however its folders are protected and however deep they are: the deepest
    are brought up to the top. `shutil` would cost more to import than to run."""

    def attempt(call, *names, **place):
        try:
            call(*names, **place)
            return True
        except OSError:
            return False

    def entries(fd):
        with os.scandir(fd) as found:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]

    def open_folder(name, **place):
        attempt(os.chmod, name, 0o700, **place)
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, **place)

    def empty(fd, depth=0):
        """One step; whether anything was removed or brought up."""
        nonlocal number
        done = False
        for name, is_folder in entries(fd):
            if not is_folder:
                done = attempt(os.unlink, name, dir_fd=fd) or done
                continue
            if depth == REMOVE_DEPTH:
                number += 1
                attempt(os.chmod, name, 0o700, dir_fd=fd)  # its link to the parent changes
                done = attempt(os.rename, name, ".removed-%d" % number, src_dir_fd=fd, dst_dir_fd=top) or done
                continue
            try:
                inner = open_folder(name, dir_fd=fd)
            except OSError:
                continue
            done = empty(inner, depth + 1) or done
            os.close(inner)
            done = attempt(os.rmdir, name, dir_fd=fd) or done
        return done

    os.chdir("/")
    number = 0
    try:
        top = open_folder(folder)
        while empty(top):
            pass
    except OSError:
        pass  # the program tries as well
    attempt(os.rmdir, folder)


def main():
    mode, rest = sys.argv[1], sys.argv[2:]
    if mode == "guard":
        guard(rest)
    limits, scratch = {}, None
    for word in rest:
        key, _, value = word.partition("=")
        if key == "scratch":
            scratch = value
        else:
            limits[key] = int(value)
    os.umask(0o077)
    harden()
    supervisor = Supervisor(limits)
    gone = False
    try:
        gone = supervisor.loop()
    finally:
        sweep(supervisor.reap)
        if gone and scratch:
            remove(scratch)
    os._exit(0)


main()
