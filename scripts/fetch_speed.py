"""Times `deltafin setup` against a hub in a process of its own, and `dd` beside it. Called by scripts/fetch-speed."""

import os
import re
import shutil
import subprocess
import sys
import time

PROGRAMS, SERVED, WORK = sys.argv[1:]
ROUNDS = 4
GB = 1e9


def start_hub():
    """The hub, and the variables and the source that lead to it."""
    hub = subprocess.Popen([f"{PROGRAMS}/examples/hub", SERVED], text=True,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    found = re.search(r"HF_ENDPOINT=(\S+) .*--source (\S+)", hub.stdout.readline())
    return hub, found.group(1), found.group(2)


def fetch(endpoint, source):
    """Seconds, seconds of processor, most bytes of memory, of one fresh installation."""
    target = f"{WORK}/fetched"
    env = os.environ | {"HF_ENDPOINT": endpoint, "HF_HOME": WORK, "XDG_CONFIG_HOME": WORK,
                        "NO_PROXY": "127.0.0.1"}
    began = time.monotonic()
    child = subprocess.Popen([f"{PROGRAMS}/deltafin", "setup", "--full", "--json", "--source", source,
                              "--model", target], env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    took = time.monotonic() - began
    assert status == 0, status
    shutil.rmtree(target)
    return took, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def plain_write():
    """Seconds in which `dd` writes the same files, each until it is on the drive."""
    began = time.monotonic()
    for entry in os.scandir(SERVED):
        subprocess.run(["dd", f"if={entry.path}", f"of={WORK}/written", "bs=1M", "conv=fsync"],
                       check=True, stderr=subprocess.DEVNULL)
    took = time.monotonic() - began
    os.remove(f"{WORK}/written")
    return took


def main():
    size = sum(entry.stat().st_size for entry in os.scandir(SERVED)) / GB
    hub, endpoint, source = start_hub()
    for _ in range(ROUNDS):
        written = plain_write()
        took, processor, memory = fetch(endpoint, source)
        print(f"{size:.2f} GB: setup {size / took:.2f} GB/s, dd {size / written:.2f} GB/s ({written / took:.2f} of it), "
              f"{processor / size:.2f} s of processor per GB, {memory / 1e6:.0f} MB at most")
    hub.communicate("")


main()
