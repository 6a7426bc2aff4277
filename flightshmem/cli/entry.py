# SPDX-License-Identifier: Apache-2.0
"""What a PE started by ``flightshmem run`` executes: the user's script, with its ends made safe.

``python -m flightshmem.cli.entry script.py args...`` or ``... -m module args...``
"""

from __future__ import annotations

import io
import os
import runpy
import sys
from pathlib import Path
from types import TracebackType

from flightshmem.runtime import failures, launch, session

OUTPUT = "FLIGHTSHMEM_OUTPUT"
"""Two paths for each PE of an openshmem job, where its output and its errors go; colons between."""


def take_output() -> None:
    """Write to the launcher itself, where another launcher is in between."""
    paths = os.environ.pop(OUTPUT, "").split(":")
    pe = launch.foreign_pe()
    if pe is None or len(paths) < 2 * pe + 2:
        return
    for descriptor, path in zip((1, 2), paths[2 * pe : 2 * pe + 2], strict=True):
        try:
            target = os.open(path, os.O_WRONLY)
        except OSError:
            continue  # on another machine: the other launcher passes it on
        os.dup2(target, descriptor)
        os.close(target)


def run_target(arguments: list[str]) -> None:
    """Run a script or ``-m module`` as Python itself would."""
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
        runpy.run_path(arguments[0], run_name="__main__")


def exit_code_of(end: SystemExit) -> int:
    """Return the exit code that Python gives to a SystemExit, having printed its text if it is one."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    print(end.code, file=sys.stderr)
    return 1


def main() -> None:
    """Run the target; an exit code other than 0 ends the whole job."""
    take_output()
    has_seat = launch.take_seat() is not None
    if sys.path[0] in ("", str(Path.cwd())):
        del sys.path[0]  # put there by -m, for us and not for the script
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)
    try:
        run_target(sys.argv[1:])
    except SystemExit as end:
        code = exit_code_of(end)
        if code and session.is_initialized():
            # Our own launcher says which PE ended how; others do not.
            words = "" if has_seat else f"ended with exit code {code}"
            failures.end_job(session.current().transport, code, words)
        sys.exit(code)
    except BaseException as error:
        # As the interpreter would, but the traceback begins in the user's script.
        error.__traceback__ = trace_of_script(error)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(failures.INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1)


def trace_of_script(error: BaseException) -> TracebackType | None:
    """Return the error's traceback without the frames of this module and of runpy."""
    own = (__file__, runpy.__file__, "<frozen runpy>")
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    return trace or error.__traceback__


if __name__ == "__main__":
    main()
