"""Runs a command that may not have more than so many bytes of memory, and says what it had.

    limited.py REPORT BYTES COMMAND...

The command gets a control group of its own, of either version, whose limit counts everything: heap,
stacks, page cache, page tables. There is no swap to go to. A command that needs more is killed, which
is exit status 137. Where no group can be made the command runs without a limit.

REPORT gets lines for a shell to source, the first at once and the others when the command has ended:

    pid=NUMBER          the command's process
    limited=yes|no      whether there was a limit
    resident=BYTES      the most that was resident, as the kernel tells the parent of a process
    group=BYTES         the most the group had, page cache included; 0 without a group
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

ROOTS = [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")]


def version(root):
    """1 or 2 where groups with a limit can be made, else 0."""
    if (root / "memory.limit_in_bytes").exists():
        return 1
    try:
        controllers = (root / "cgroup.subtree_control").read_text().split()
    except OSError:
        return 0
    return 2 if "memory" in controllers else 0


class Group:
    """A group with a limit; `path` is nothing where there can be none."""

    def __init__(self, limit):
        self.path = None
        for root in ROOTS:
            kind = version(root)
            path = root / f"deltafin-limited-{os.getpid()}"
            if not kind or self.path:
                continue
            with contextlib.suppress(OSError):
                path.mkdir()
                self.path, self.kind = path, kind
                self.set_limit(limit)

    def set_limit(self, limit):
        try:
            if self.kind == 1:
                self.write("memory.limit_in_bytes", limit)
                with contextlib.suppress(FileNotFoundError):
                    self.write("memory.memsw.limit_in_bytes", limit)
            else:
                self.write("memory.max", limit)
                with contextlib.suppress(FileNotFoundError):
                    self.write("memory.swap.max", 0)
        except OSError:
            self.path.rmdir()
            self.path = None

    def write(self, name, value):
        file = self.path / name
        # Opened for writing alone: a file that is not there must not be made.
        with os.fdopen(os.open(file, os.O_WRONLY), "w") as opened:
            opened.write(str(value))

    def enter(self):
        self.write("cgroup.procs", os.getpid())

    def peak(self):
        """What the kernel noted; older ones do not in version 2."""
        name = "memory.max_usage_in_bytes" if self.kind == 1 else "memory.peak"
        try:
            return int((self.path / name).read_text())
        except OSError:
            return 0


def main():
    report, limit, *command = sys.argv[1:]
    group = Group(int(limit))
    inside = group.enter if group.path else None
    child = subprocess.Popen(command, preexec_fn=inside)
    Path(report).write_text(f"pid={child.pid}\n")
    _, status, usage = os.wait4(child.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    lines = {
        "pid": child.pid,
        "limited": "yes" if group.path else "no",
        "resident": usage.ru_maxrss * 1024,
        "group": group.peak() if group.path else 0,
    }
    Path(report).write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    if group.path:
        # What the command left running keeps it.
        with contextlib.suppress(OSError):
            group.path.rmdir()
    sys.exit(code if code >= 0 else 128 - code)


main()
