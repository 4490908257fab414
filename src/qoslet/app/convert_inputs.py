"""The document of ``convert``, read by what it holds: a pod needs a node, nothing else does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from qoslet.core.api.schema import shown
from qoslet.core.convert.convert import (
    Conversion,
    ConversionRequest,
    conversion_request,
    convert_document,
)
from qoslet.core.convert.inputs import blocks_of, kind_of
from qoslet.core.convert.options import WINDOWS_ONLY, check_release
from qoslet.core.convert.pods import are_of_windows, convert_pods
from qoslet.core.convert.windows_job_object import Windows
from qoslet.core.oci.resources import Block
from qoslet.core.versions.runtime import KEP_2254, by_tables
from qoslet.errors import BadInput
from qoslet.host.files.manifests import values_of

if TYPE_CHECKING:
    import argparse

    from qoslet.app.inputs import Inputs
    from qoslet.core.api.loaded import Loaded
    from qoslet.core.api.pod import System
    from qoslet.core.problem import Problem


def answer(args: argparse.Namespace, runtime: str) -> Conversion:
    """Read and convert. Raises QosletError."""
    if args.path == "-" and "-" in (args.update, *args.node):
        raise BadInput("standard input can be read once", hint="name a file")
    if args.source == "dockershim":
        args.source, args.runtime = "cri", args.runtime or "dockershim"
    problems: list[Problem] = []
    request = _request(args, runtime, problems)
    made = _converted(args, request)
    return structs.replace(made, problems=(*problems, *made.problems)) if problems else made


def _converted(args: argparse.Namespace, request: ConversionRequest) -> Conversion:
    source = args.source
    if source != "pod":
        found = values_of(args.path)
        where, given = found[0]
        if not isinstance(given, dict):
            raise BadInput("expected `object`", where=where)
        source = source or kind_of(given, where)
        if source != "pod":
            if len(found) > 1:
                raise BadInput("contains several documents", where=args.path, hint="give one")
            return convert_document(given, request, source, where)
        if args.path == "-":
            return _pods(args, request, [value for _, value in found])
    return _pods(args, request, None)


def _pods(
    args: argparse.Namespace, request: ConversionRequest, values: list[Any] | None
) -> Conversion:
    from qoslet.app.inputs import note_origins, read, read_values

    args.expand, args.resources = False, "spec"

    def given(system: System | None, before: Loaded | None = None) -> Inputs:
        if values is None:
            return read(args, [args.path], system=system, given=before, again=True)
        return read_values(args, values, system)

    found = given("windows" if args.to in WINDOWS_ONLY else None)
    if found.node.os != "windows" and not args.node and are_of_windows(found.pods):
        found = given("windows", found.loaded)
    if values is None:
        note_origins(found.node)
    return convert_pods(found.pods, found.node, request, found.problems)


def _request(args: argparse.Namespace, runtime: str, problems: list[Problem]) -> ConversionRequest:
    check_release(args.kubernetes)
    before = None
    if args.update:
        where, given = values_of(args.update)[0]
        if not isinstance(given, dict):
            raise BadInput("expected `object`", where=where)
        found = list(blocks_of(given, "oci", where, problems))
        first = found[0].resources if found else Block()
        before = first if isinstance(first, Block) else None
    design = args.kubernetes == "design" and args.to != "windows"
    request = conversion_request(
        args.to,
        args.runtime or (KEP_2254 if design else runtime),
        driver=args.cgroup_driver or "cgroupfs",
        hierarchy=args.hierarchy,
        update=args.update is not None,
        before=before,
        usage=None if args.usage is None else _usage(args.usage),
        without=tuple(filter(None, args.without.split(","))),
        windows=_windows(args),
        kernel=args.kernel,
        kubernetes=args.kubernetes,
    )
    return structs.replace(request, runtime=by_tables(request.runtime)) if design else request


def _usage(text: str) -> tuple[int, int]:
    """``BYTES[,SWAP]``."""
    used, comma, swapped = text.partition(",")
    amounts = (used, swapped) if comma else (used, "0")
    if not all(one.isascii() and one.isdecimal() and len(one) < 20 for one in amounts):
        hint = "as in 67108864 or 67108864,4096: memory.current, memory.swap.current"
        raise BadInput(f"is {shown(repr(text))}, must be BYTES[,SWAP]", where="--usage", hint=hint)
    return int(amounts[0]), int(amounts[1])


def _windows(args: argparse.Namespace) -> Windows:
    isolation, number = args.isolation or "process", args.processors
    if isolation not in ("process", "hyperv"):
        raise BadInput(f"is {isolation!r}, must be process or hyperv", where="--isolation")
    if number is not None and not (number.isdecimal() and 0 < int(number[:6]) <= 2048):
        raise BadInput(f"is {number!r}, must be 1 to 2048", where="--processors")
    processors = None if number is None else int(number)
    return Windows(isolation, processors, args.kubernetes == "design")
