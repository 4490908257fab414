"""The kubeconfig as kubectl reads it: of several files the first that has something wins, a path is
relative to the file that names it, and one context of all is taken.

Source: k8s.io/client-go tools/clientcmd (loader.go, client_config.go), transport (impersonation).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from qoslet.core.api.schema import nearest, shown
from qoslet.errors import BadInput
from qoslet.host.files.manifests import unreadable, value_of

_KINDS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
LIST_CONTEXTS = "kubectl config get-contexts"
_LARGEST = 16 << 20


class Kubeconfig(Struct, frozen=True):
    """One context with its cluster and its user: ``document`` is a kubeconfig of these alone, without
    empty fields, its paths absolute. ``headers`` say as whom the user acts, ``install_hint`` where its
    credential plugin is from."""

    document: Mapping[str, Any]
    headers: Sequence[tuple[str, str]] = ()
    install_hint: str = ""


class _Plugin(Struct):
    """What is read of a credential plugin; the library reads the rest."""

    command: str = ""
    installHint: str = ""  # noqa: N815


class _User(Struct):
    """What is read of a user here: its plugin, and as whom it acts."""

    plugin: _Plugin = msgspec.field(default_factory=_Plugin, name="exec")
    name: str = msgspec.field(default="", name="as")
    uid: str = msgspec.field(default="", name="as-uid")
    groups: tuple[str, ...] = msgspec.field(default=(), name="as-groups")
    extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict, name="as-user-extra")


class _Entries(Struct):
    """What the files have by name, and which context is the current one."""

    clusters: dict[str, dict[str, Any]] = {}
    users: dict[str, dict[str, Any]] = {}
    contexts: dict[str, dict[str, Any]] = {}
    current: str = ""


def kubeconfig_files(explicit: str = "") -> list[str]:
    """Where a kubeconfig may be: ``explicit`` alone, else what KUBECONFIG lists, else the user's own."""
    if explicit:
        return [explicit]
    listed = os.environ.get("KUBECONFIG", "").split(os.pathsep)
    return list(dict.fromkeys(filter(None, listed))) or [os.path.expanduser("~/.kube/config")]


def read_kubeconfig(explicit: str, context: str) -> Kubeconfig:
    """The ``context``, the current one where it is empty. Raises BadInput."""
    files = kubeconfig_files(explicit)
    there = [one for one in files if explicit or os.path.exists(one)]
    where = shown(os.pathsep.join(there or files), 300)
    if not there:
        hint = "name one: --kubeconfig FILE, or KUBECONFIG"
        raise BadInput("no kubeconfig was found", where=where, hint=hint)
    found = _Entries()
    for path in there:
        _take(found, path)
    name = context or found.current
    if not name:
        raise BadInput(
            "no current context", where=where, hint=f"name one: --context; {LIST_CONTEXTS}"
        )
    chosen = _named(found.contexts, "context", name, where)
    cluster_name, user_name = str(chosen.get("cluster") or ""), str(chosen.get("user") or "")
    cluster = _named(found.clusters, "cluster", cluster_name, where)
    user = _named(found.users, "user", user_name, where) if user_name else {}
    if os.access(user.get("tokenFile", ""), os.R_OK):
        user.pop("token", None)
    document = {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": cluster_name, "user": user_name}}],
        "clusters": [{"name": cluster_name, "cluster": cluster}],
        "users": [{"name": user_name, "user": user}],
    }
    try:
        read = msgspec.convert(user, _User)
    except msgspec.ValidationError as error:
        raise BadInput(shown(str(error), 200), where=f"{where}: user {shown(user_name)}") from None
    hint = shown(" ".join(read.plugin.installHint.split()), 300)
    return Kubeconfig(document, tuple(_impersonation(read)), hint)


def _take(found: _Entries, path: str) -> None:
    """Add what a file has and none before it. Raises BadInput."""
    try:
        with open(path, "rb") as file:
            text = file.read(_LARGEST)
    except OSError as error:
        raise unreadable(path, error) from None
    if not text.strip():
        return
    document = value_of(text, path)
    base = os.path.dirname(os.path.abspath(path))
    for kind, field in _KINDS.items():
        known: dict[str, dict[str, Any]] = getattr(found, kind)
        rows = document.get(kind) or []
        for row in rows if isinstance(rows, list) else [None]:
            if not isinstance(row, dict) or not isinstance(row.get(field) or {}, dict):
                message = f"must be a list of objects with name and {field}"
                raise BadInput(message, where=f"{shown(path)}: {kind}")
            known.setdefault(str(row.get("name")), _resolved(row.get(field) or {}, base))
    found.current = found.current or str(document.get("current-context") or "")


def _resolved(entry: Mapping[str, Any], base: str) -> dict[str, Any]:
    """An entry without empty fields, its paths absolute."""
    filled = {field: value for field, value in entry.items() if value not in (None, "")}
    for field in _PATHS:
        if field in filled:
            filled[field] = os.path.join(base, str(filled[field]))
    plugin = filled.get("exec")
    if isinstance(plugin, dict) and "/" in str(plugin.get("command")):
        # a name without a directory is looked for in PATH
        filled["exec"] = {**plugin, "command": os.path.join(base, str(plugin["command"]))}
    return filled


def _named(
    entries: Mapping[str, dict[str, Any]], kind: str, name: str, where: str
) -> dict[str, Any]:
    """The entry of a name. Raises BadInput."""
    if name in entries:
        return entries[name]
    hint = nearest(name, tuple(entries)) or LIST_CONTEXTS
    raise BadInput(f"has no {kind} {shown(name) or 'in its context'}", where=where, hint=hint)


def _impersonation(user: _User) -> Iterator[tuple[str, str]]:
    """The headers of a user that acts as another."""
    if not user.name:
        return
    yield "Impersonate-User", user.name
    if user.uid:
        yield "Impersonate-Uid", user.uid
    for group in user.groups:
        yield "Impersonate-Group", group
    for key, values in user.extra.items():
        for value in values:
            yield f"Impersonate-Extra-{_escaped(key)}", value


def _escaped(key: str) -> str:
    """A key as the rest of a header's name."""
    from urllib.parse import quote

    return quote(key, safe="!#$&'*+-.^_`|~")
