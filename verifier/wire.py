"""What goes over the sockets between the trainer's process, the fork server and its session processes.

All are local SOCK_SEQPACKET sockets: a message arrives whole, and descriptors travel beside it. Programs,
inputs and outputs are memory files passed as descriptors: their content never enters the processes that fork
the tests, so no test finds another's data in the memory it was copied from.
"""

from __future__ import annotations

import os
import struct

# Trainer -> session: run a test, with descriptors (stdin, stdout, tail of stderr, [result]): its number, CPU and wall
# seconds at which the session says OVER (where they are less than the next two), CPU seconds, wall seconds, memory bytes,
# output bytes, number of the slot; or stop one, by its number.
TEST = struct.Struct("<IddddQQI")
STOP = struct.Struct("<I")
# Session -> trainer: number of the test, wait status, who killed it, CPU seconds, wall seconds, bytes written to stderr.
RESULT = struct.Struct("<IiBddQ")
NOT_KILLED, KILLED_CPU, KILLED_WALL, KILLED_MEMORY, KILLED_FILES, KILLED_STOPPED = range(6)

# First byte of each message from the fork server's side; after ENDED comes a RESULT, after OVER a test's number, after
# COMPILED nothing or SERIAL, after the others a text. SHORT is a failure for want of something that may be there later.
COMPILED, COMPILE_ERROR, ENDED, OVER, DIED, FAILED, SHORT = b"c", b"e", b"t", b"o", b"d", b"f", b"s"
SERIAL = b"1"  # this session runs one test at a time

STARVED = 4  # on a crowded machine the wall limit is stretched by the time spent waiting for a core, up to this
STDERR_RING = 1 << 16  # stderr is kept in a ring of this size, of which the trainer reads the end


def read_all(descriptor: int, limit: int) -> bytes:
    """The first `limit` bytes of a memory file."""
    size = min(os.fstat(descriptor).st_size, limit)
    parts = []
    offset = 0
    while offset < size:
        part = os.pread(descriptor, size - offset, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_ring_end(descriptor: int, written: int, wanted: int) -> bytes:
    """The last `wanted` bytes of a stream of `written` bytes kept in a ring."""
    kept = min(written, wanted, STDERR_RING)
    start = (written - kept) % STDERR_RING
    first = os.pread(descriptor, min(kept, STDERR_RING - start), start)
    return first + os.pread(descriptor, kept - len(first), 0) if len(first) < kept else first
