# SPDX-License-Identifier: Apache-2.0
"""``flightshmem serve``: files as tables behind Arrow Flight, over N PEs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, replace

from flightshmem.cli.job import run_job
from flightshmem.cli.run import add_job_arguments, job_of
from flightshmem.cli.serving import READERS, Request
from flightshmem.errors import InvalidArgument
from flightshmem.flight import auth
from flightshmem.flight.server import GRACE_S, MAX_MESSAGE_BYTES, MAX_PUT_BYTES
from flightshmem.runtime import parse_bytes

SUMMARY = "serve files as tables over Arrow Flight"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``serve``."""
    parser.usage = "flightshmem serve [-n N] [options] NAME=path [path ...] [NAME=path ...]"
    add_job_arguments(parser)
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: this machine only)"
    )
    parser.add_argument("--port", type=int, default=0, help="PE k listens on PORT + k (default: free ports)")
    parser.add_argument(
        "--token-file", metavar="FILE", help="the token clients must send (default: a random one)"
    )
    parser.add_argument("--no-token", action="store_true", help="let everybody in; needs --insecure")
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="allow what is not safe: another host than this machine (there is no TLS yet), or --no-token",
    )
    parser.add_argument(
        "--expose",
        choices=("all", "gateway"),
        default="all",
        help="all: clients read each shard from its own PE; gateway: everything through PE 0",
    )
    parser.add_argument(
        "--max-message", metavar="SIZE", help="largest Flight message (default 2M; clients: 4M)"
    )
    parser.add_argument("--max-put", metavar="SIZE", help="most that one upload may decode to (default 4G)")
    parser.add_argument(
        "--grace",
        type=float,
        default=GRACE_S,
        metavar="SECONDS",
        help=f"how long streams may go on after SIGTERM (default {GRACE_S:g})",
    )
    parser.add_argument(
        "tables",
        nargs="*",
        metavar="NAME=path",
        help=f"a table: files ({', '.join(READERS)}), patterns, directories",
    )


def run(options: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C, then 0."""
    request = Request(
        tables=parse_tables(options.tables),
        host=options.host,
        port=options.port,
        token_file=options.token_file,
        no_token=options.no_token,
        expose=options.expose,
        max_message_bytes=parse_bytes(options.max_message) if options.max_message else MAX_MESSAGE_BYTES,
        max_put_bytes=parse_bytes(options.max_put) if options.max_put else MAX_PUT_BYTES,
        insecure=options.insecure,
        grace_s=options.grace,
    )
    if request.token_file is not None:
        auth.read_token_file(request.token_file)
    job = job_of(options, ("-m", "flightshmem.cli.serving", json.dumps(asdict(request))))
    return run_job(replace(job, stop_s=request.grace_s + job.stop_s, ends_itself=True))


def parse_tables(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Read ``NAME=path``; a word without ``=`` is one more path of the table before it."""
    tables: dict[str, list[str]] = {}
    name = ""
    for argument in arguments:
        before, equals, path = argument.partition("=")
        if equals and "/" not in before:
            name = before
            if not name or not path or name in tables or name.startswith("."):
                problem = "is there twice" if name in tables else "needs a name (no dot first) and a path"
                raise InvalidArgument(f"[serve] a table {problem}, got {argument!r}: write NAME=path")
            tables[name] = [path]
        elif name:
            tables[name].append(argument)
        else:
            raise InvalidArgument(f"[serve] a table needs a name, got {argument!r}: write NAME=path")
    return tables
