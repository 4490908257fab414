"""The environment of a container as a kubelet makes it: ``$(VAR)`` and the downward API.

Source: Kubernetes third_party/forked/golang/expansion expand.go; kubelet kubelet_pods.go
makeEnvironmentVariables; resource.ExtractContainerResourceValue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from qoslet.core.api.config.objects import ConfigObjects
from qoslet.core.api.pod import NO_QUANTITIES, Container, Pod, Quantities
from qoslet.core.quantity import NANO, QuantityError, parse
from qoslet.core.workload.config.references import UnmetReference, mapping, mappings
from qoslet.core.workload.config.variables import ConfigVariables

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""``PATH`` where the container sets none: the default of containerd and CRI-O."""


class PodEnvironment(Struct, frozen=True):
    """What the downward API may tell, and the ConfigMaps and Secrets. ``allocatable`` stands in for
    limits that are not set. With ``symbolic`` resources and ``config`` read as their references,
    whatever they amount to. ``seccomp_default``: who asks for no seccomp profile is to get the
    runtime's. ``gates_off`` are the gates of lifecycle fields that the node's release disables."""

    node_name: str | None = None
    allocatable: Quantities = NO_QUANTITIES
    symbolic: bool = False
    seccomp_default: bool = False
    config: ConfigObjects = {}
    gates_off: frozenset[str] = frozenset()


class Variables(Struct):
    """The variables of a container. ``missing`` are the field paths that cannot be honoured,
    ``unmet`` what the input lacks."""

    values: dict[str, str]
    missing: list[str]
    unmet: list[UnmetReference]


LONGEST_WORD = 128 * 1024 - 1
"""Bytes of a word or variable of a process. Source: execve(2), MAX_ARG_STRLEN with its NUL."""

WORDS_MAX = 6 * 1024 * 1024
"""Bytes of all words and variables of a process. Source: execve(2), three quarters of _STK_LIM."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """``text`` with ``$(NAME)`` replaced; unknown names stay as written, ``$$`` is one ``$``. What
    grows beyond ``LONGEST_WORD`` ends soon after it: variables may double each other."""
    if "$" not in text:
        return text
    out: list[str] = []
    at = length = 0
    while at < len(text) and (length <= LONGEST_WORD or not out):
        start = at
        at = text.find("$", at)
        if at < 0 or at + 1 == len(text):
            out.append(text[start:])
            break
        piece, taken = _reference(text, at, variables)
        out += (text[start:at], piece)
        length += at - start + len(piece)
        at += taken
    return "".join(out)


def _reference(text: str, at: int, variables: Mapping[str, str]) -> tuple[str, int]:
    """What the operator at ``at`` becomes, and how many characters it took."""
    follows = text[at + 1]
    if follows == "$":
        return "$", 2
    if follows != "(":
        return "$" + follows, 2
    end = text.find(")", at + 2)
    if end < 0:
        return "$(", 2
    name = text[at + 2 : end]
    return variables.get(name, f"$({name})"), end + 1 - at


def environment(
    document: Mapping[str, Any],
    container: Mapping[str, Any],
    pod: Pod,
    shape: Container,
    around: PodEnvironment,
) -> Variables:
    """The variables of ``container``.

    Those of ``envFrom`` come first. A later variable of the same name wins, and a value sees the variables before it.
    ``PATH`` and ``HOME`` are not part of the result; ``launch_environment`` adds them.
    """
    config = ConfigVariables(around.config, pod.namespace, shape.field, around.symbolic)
    variables = config.all_of(container)
    missing: list[str] = []
    length = 0
    for index, entry in enumerate(mappings(container.get("env"))):
        name = str(entry.get("name", ""))
        source = mapping(entry.get("valueFrom"))
        if not source:
            text = _text(entry.get("value"))
            # too much already, which is said of the container: expand no more
            variables[name] = expand(text, variables) if length <= WORDS_MAX else text
            length += len(variables[name])
            continue
        of_config, value = config.one_of(source, f"env[{index}] ({name})")
        if not of_config:
            value = _from_source(source, document, pod, shape, around)
        if value is None and of_config:
            continue
        if value is None:
            missing.append(f"{shape.field}.env[{index}] ({name})")
        else:
            variables[name] = value
    return Variables(variables, missing, config.unmet)


def launch_environment(variables: Mapping[str, str], uid: int) -> tuple[tuple[str, str], ...]:
    """``variables`` with the ``PATH`` and ``HOME`` that a runtime gives where there are none."""
    home = "/root" if uid == 0 else "/"
    return tuple({"PATH": DEFAULT_PATH, "HOME": home, **variables}.items())


def _from_source(
    source: Mapping[str, Any],
    document: Mapping[str, Any],
    pod: Pod,
    shape: Container,
    around: PodEnvironment,
) -> str | None:
    """The value of ``valueFrom``; None for what only a cluster knows."""
    field = mapping(source.get("fieldRef"))
    if field:
        return pod_field(str(field.get("fieldPath", "")), document, pod, around)
    resource = mapping(source.get("resourceFieldRef"))
    if resource:
        return resource_field(resource, pod, shape, around)
    return None


def pod_field(
    path: str, document: Mapping[str, Any], pod: Pod, around: PodEnvironment
) -> str | None:
    """A field of the pod as text."""
    known = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": around.node_name or pod.node_name,
        "spec.serviceAccountName": mapping(document.get("spec")).get(
            "serviceAccountName", "default"
        ),
    }
    if path in known:
        value = known[path]
        return None if value is None else str(value)
    for kind in ("labels", "annotations"):
        prefix = f"metadata.{kind}['"
        if path.startswith(prefix) and path.endswith("']"):
            entries = mapping(mapping(document.get("metadata")).get(kind))
            return str(entries.get(path[len(prefix) : -2], ""))
    return None


def resource_field(
    reference: Mapping[str, Any], pod: Pod, shape: Container, around: PodEnvironment
) -> str | None:
    """A request or limit, divided and rounded up; a missing limit is the node's allocatable."""
    wanted = reference.get("containerName")
    chosen = next((c for c in pod.containers if c.name == wanted), None) if wanted else shape
    kind, _, name = str(reference.get("resource", "")).partition(".")
    if chosen is None or kind not in ("limits", "requests"):
        return None
    if around.symbolic:
        return f"{chosen.name} {kind}.{name} {reference.get('divisor')}"
    resources = chosen.resources
    amount = (resources.limits if kind == "limits" else resources.requests).get(name)
    if amount is None and kind == "limits":
        amount = around.allocatable.get(name)
        if amount is None:
            return None
    try:
        divisor = parse(str(reference.get("divisor") or "1")).nano or NANO
    except QuantityError:
        return None
    return str(-(-(0 if amount is None else amount.nano) // divisor))


def _text(value: object) -> str:
    """A scalar of a document as text."""
    return "" if value is None else str(value)
