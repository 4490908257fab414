"""Fields of a pod document that every reader of containers needs: its commands, policies and grace,
and the rows that say what is wrong with it.

Source: core/v1 PodSpec, Container; KEP-1287 (resizePolicy).
"""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import normpath
from typing import Any, Literal, get_args

from msgspec.structs import replace

from qoslet.core.api.container_resources import FieldFault
from qoslet.core.api.pod import Container, Pod
from qoslet.core.problem import Problem, ProblemCode, Severity
from qoslet.core.workload.config.references import UnmetReference, mapping
from qoslet.core.workload.env import LONGEST_WORD, WORDS_MAX, expand
from qoslet.core.workload.security.context import IsolationRefusal

RestartPolicy = Literal["Always", "OnFailure", "Never"]

DEFAULT_GRACE = 30.0
"""Seconds between SIGTERM and SIGKILL where the pod does not say (core/v1 default)."""

_POLICIES: Mapping[str, RestartPolicy] = {one: one for one in get_args(RestartPolicy)}


def words(value: object, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Command or args, expanded."""
    if not isinstance(value, list):
        return ()
    texts, length = [], 0
    for word in value:
        texts.append(expand(str(word), variables) if length <= WORDS_MAX else str(word))
        length += len(texts[-1])
    return tuple(texts)


def word_faults(
    raw: Mapping[str, Any], shape: Container, variables: Mapping[str, str]
) -> list[FieldFault]:
    """Words for the process of a container that the kernel does not take, or takes only to their
    first NUL. Source: execve(2)."""
    faults: list[FieldFault] = []
    if not _are_plain(raw, variables):
        faults += (*_nul_faults(raw, shape, variables), *_long_words(raw, shape, variables))
    if is_of_proc(str(raw.get("workingDir") or "")):
        hint = (
            "choose another directory: through it a container can reach the host (CVE-2024-21626)"
        )
        faults.append(FieldFault(f"{shape.field}.workingDir", "is below /proc", hint))
    return faults


def is_of_proc(path: str) -> bool:
    """Whether a directory of a container is the proc file system or below it."""
    return (normpath(f"/{path}").strip("/") + "/").startswith("proc/")


def _are_plain(raw: Mapping[str, Any], variables: Mapping[str, str]) -> bool:
    """Whether all words together, each variable put in wherever one is named, are so short that
    none is too long, and hold no NUL: so it is with almost every container."""
    pieces = [str(raw.get("workingDir") or "")]
    for name in ("command", "args"):
        value = raw.get(name)
        pieces += map(str, value) if isinstance(value, list) else ()
    given = "".join(pieces)
    of_variables = "".join((*variables, *variables.values()))
    most = len(given) + (given.count("$") + 2) * len(of_variables)
    # a character is at most four bytes
    return 4 * most < LONGEST_WORD and "\0" not in given and "\0" not in of_variables


def _long_words(
    raw: Mapping[str, Any], shape: Container, variables: Mapping[str, str]
) -> list[FieldFault]:
    given = {f"env ({name!r})": f"{name}={value}" for name, value in variables.items()}
    for name in ("command", "args"):
        expanded = enumerate(words(raw.get(name), variables))
        given |= {f"{name}[{index}]": word for index, word in expanded}
    hint = "shorten it: execve(2) takes no more"
    faults = [
        FieldFault(f"{shape.field}.{name}", "is longer than 128 KiB", hint)
        for name, text in given.items()
        if len(text.encode(errors="surrogatepass")) > LONGEST_WORD
    ]
    if sum(map(len, given.values())) > WORDS_MAX:
        message = "command, args and env are longer than 6 MiB together"
        faults.append(FieldFault(shape.field, message, hint))
    return faults


def _nul_faults(
    raw: Mapping[str, Any], shape: Container, variables: Mapping[str, str]
) -> list[FieldFault]:
    given = {"workingDir": str(raw.get("workingDir") or "")}
    for name in ("command", "args"):
        value = raw.get(name)
        entries = value if isinstance(value, list) else []
        given |= {f"{name}[{index}]": str(word) for index, word in enumerate(entries)}
    given |= {f"env ({name!r})": f"{name}{value}" for name, value in variables.items()}
    hint = "remove it: a process cannot have one"
    return [
        FieldFault(f"{shape.field}.{name}", "contains a NUL", hint)
        for name, text in given.items()
        if "\0" in text
    ]


def policy_of(spec: Mapping[str, Any], raw: Mapping[str, Any], shape: Container) -> RestartPolicy:
    """When a container is started again; a sidecar always is."""
    if shape.role == "sidecar":
        return "Always"
    given = _POLICIES.get(str(raw.get("restartPolicy") or spec.get("restartPolicy")), "Always")
    return "OnFailure" if shape.role == "init" and given == "Always" else given


def grace_of(spec: Mapping[str, Any]) -> float:
    """``terminationGracePeriodSeconds``; what is not a number of seconds counts as absent."""
    value = spec.get("terminationGracePeriodSeconds")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return DEFAULT_GRACE
    return max(0.0, float(value))


def documents_by_name(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The documents of the containers of a valid pod, by name."""
    documents: dict[str, Mapping[str, Any]] = {}
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for raw in spec.get(kind) or ():
            if isinstance(raw, Mapping):
                documents.setdefault(str(raw.get("name")), raw)
    return documents


def resize_restarts(pod: Pod, spec: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The containers that a resize of a resource restarts (KEP-1287)."""
    found = []
    documents = documents_by_name(spec)
    for shape in pod.containers:
        entries = documents.get(shape.name, {}).get("resizePolicy")
        for entry in entries if isinstance(entries, list) else ():
            row = mapping(entry)
            if row.get("restartPolicy") == "RestartContainer":
                found.append((shape.name, str(row.get("resourceName"))))
    return tuple(found)


def tells_resources(pod: Pod, spec: Mapping[str, Any]) -> bool:
    """Whether a variable of any container is taken from resources."""
    documents = documents_by_name(spec)
    entries = [documents.get(shape.name, {}).get("env") for shape in pod.containers]
    return any(
        isinstance(entry, Mapping) and mapping(entry.get("valueFrom")).get("resourceFieldRef")
        for env in entries
        if isinstance(env, list)
        for entry in env
    )


def refusal_row(pod: Pod, refusal: IsolationRefusal, unconfined: bool) -> Problem:
    """The row for isolation that was asked for and is not there."""
    if unconfined:
        message = f"{refusal.message}: run anyway (--unconfined)"
        return problem_row(pod, "warning", refusal.field, message, "")
    message = f"not run, because {refusal.why}: {refusal.message}"
    hint = refusal.hint or "use --unconfined to run it anyway"
    return problem_row(pod, "error", refusal.field, message, hint)


def unmet_row(pod: Pod, unmet: UnmetReference) -> Problem:
    """The row for what a pod has to wait for."""
    message = f"{unmet.reason}: {unmet.message}"
    hint = "add it to the input; the pod waits"
    row = problem_row(pod, "warning", unmet.field, message, hint)
    return replace(row, code=ProblemCode.UNMET)


def fault_row(pod: Pod, note: FieldFault) -> Problem:
    """The row for a field that is wrong."""
    return problem_row(pod, "error", note.path, note.message, note.hint)


def problem_row(pod: Pod, severity: Severity, field: str, message: str, hint: str) -> Problem:
    """A problem row at a field of ``pod``."""
    return Problem(severity, f"{pod.where}: {field}", message, hint)
