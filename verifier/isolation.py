"""The walls around a test's process: chosen once by trying them, put up in every test.

Covered, in every mode but `off`:
- files: only the standard library and numpy can be read, nothing executed, and nothing written or made but plain files
  in a folder of the test's own (scratch.py), which under userns and seccomp it has not;
- network: no socket but an unnamed pair of the program's own;
- process tree: threads yes, processes no (unless asked for: then inside a pid namespace);
- parent: no signal to any process but itself, no ptrace, no reading of other processes' memory;
- CPU, wall time, memory, output: session.py sets the limits, running.py watches;
- kernel surface: about 140 system calls, most of them harmless; no io_uring, bpf, keyrings, System V IPC.

Not covered:
- a hole in the kernel itself: the programs share it. For that use a virtual machine or gVisor;
- timing side channels, and what a machine tells by its load;
- existence and size of files (stat), under landlock and seccomp; of those in the folder of a test that runs beside it, too;
- programs that eat memory up to the limit on every slot at once: have slots x limit to spare.

Modes, best first, each complete by itself; all but `off` need the system-call filter:
    landlock  Linux 5.13 and later, no privilege needed
    userns    a read-only view in user, mount, network and IPC namespaces, where users may make them
    chroot    for root without the two above: an empty root folder and a uid of its own for each slot
    seccomp   no file can be opened at all; modules are imported beforehand
    off       limits only
"""

from __future__ import annotations

import os

from verifier import cores, launch, scratch

MODES = ("landlock", "userns", "chroot", "seccomp")
ISOLATION = "CODE_REWARD_ISOLATION"
PROCESSES = "CODE_REWARD_ALLOW_PROCESSES"


class IsolationError(RuntimeError):
    """The walls asked for cannot be put up on this machine. The message says which and what to do."""


def requested() -> str:
    """The mode that the environment asks for: "auto", one of MODES, or "off". Raises IsolationError."""
    mode = os.environ.get(ISOLATION, "").strip().lower() or "auto"
    if mode not in ("auto", "off", *MODES):
        raise IsolationError(f"{ISOLATION}={mode} is unknown; use auto, {', '.join(MODES)} or off.")
    return mode


def processes_allowed() -> bool:
    """Whether programs may start processes (CODE_REWARD_ALLOW_PROCESSES=1). Off by default."""
    return os.environ.get(PROCESSES, "") not in ("", "0")


def refusal(mode: str, reasons: dict[str, str]) -> str:
    """One sentence for a machine on which no mode holds. reasons: why, for each mode that was tried."""
    tried = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    return (
        f"Refusing to run model-written programs: no isolation covers files, network, process tree and parent "
        f"({tried}). Allow one of these on this machine, or set {ISOLATION}=off to run them with limits only."
    )


def probe() -> dict[str, str]:
    """Try each mode in a process of its own. Returns, for each of MODES, "" if it holds, else why it does not."""
    return launch.ask("probe", [*MODES], processes_allowed())


def _folder(mode: str) -> tuple[bool, str]:
    """Whether tests have a folder to write in, and where or why not."""
    if mode not in scratch.MODES:
        return False, f"no file can be written; only under {', '.join(scratch.MODES)} is there a folder for it"
    try:
        return True, f"a test can write files in a folder of its own, below {scratch.place(cores.concurrency())}"
    except OSError as error:
        return False, f"no file can be written: {error}"


def report() -> str:
    """A table of the modes: which is in force, which would hold, and why the others do not."""
    mode, reasons = requested(), probe()
    chosen = next((m for m in MODES if not reasons[m] and mode in ("auto", m)), "")
    lines = [f"{'layer':<10} {'in force':<9} detail"]
    details = {
        "landlock": "read-only view of the standard library and numpy, by Landlock",
        "userns": "the same view, in namespaces of its own",
        "chroot": "an empty root folder and a user id for each slot",
        "seccomp": "system-call filter that opens no file",
    }
    for name in MODES:
        why = details[name] if name == chosen else reasons[name] or "holds on this machine; not needed"
        lines.append(f"{name:<10} {'yes' if name == chosen else 'no':<9} {why}")
    syscalls = "threads only, no sockets, no signals to others" if chosen else "comes with the layers above"
    lines.append(f"{'filter':<10} {'yes' if chosen else 'no':<9} system calls: {syscalls}")
    folder, where = _folder(mode if mode == "off" else chosen)
    lines.append(f"{'folder':<10} {'yes' if folder else 'no':<9} {where}")
    lines.append(f"{'limits':<10} {'yes':<9} CPU, wall time, memory, output, files open, no core files")
    pids = "programs may start processes" if processes_allowed() else f"not needed; {PROCESSES}=1 asks for it"
    lines.append(f"{'pid space':<10} {'yes' if processes_allowed() and chosen else 'no':<9} {pids}")
    if mode == "off":
        lines.append(f"{ISOLATION}=off: programs run with limits only; they can read and write what you can.")
    elif chosen:
        lines.append(f"covered: files, network, process tree, parent ({ISOLATION}={mode})")
    else:
        lines.append(refusal(mode, {m: reasons[m] for m in MODES if mode in ("auto", m)}))
    return "\n".join(lines)
