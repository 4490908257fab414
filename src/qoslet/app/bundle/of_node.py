"""A bundle of a node of a cluster, made by the agent that runs on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile

from qoslet.errors import BadInput, CannotDo
from qoslet.host.cluster.client_library import ACCOUNT, ClusterAccess
from qoslet.host.cluster.kubectl import kubectl

LABEL = "app.kubernetes.io/name=qoslet"
"""What the pods of the agent have; ``deploy/`` gives it to them."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@contextmanager
def bundle_of_node(name: str, access: ClusterAccess, namespace: str) -> Iterator[str]:
    """The path of a bundle of the node ``name``, while the context lasts. Raises BadInput, CannotDo."""
    where = f"node/{name}"
    if not _NAME.fullmatch(name):
        raise BadInput("must be the name of a node", where=where)
    chosen = f"--field-selector=spec.nodeName={name},status.phase=Running"
    inside = f"--namespace={namespace}"
    listed = kubectl(
        access,
        inside,
        "get",
        "pods",
        "--request-timeout=20s",
        f"--selector={LABEL}",
        chosen,
        "-o",
        "name",
        where=where,
    )
    found = listed.decode(errors="replace").split()
    if not found:
        hint = "install deploy/ there, or take qoslet bundle to the node"
        message = f"no agent runs on a node of this name in the namespace {namespace}"
        raise CannotDo(message, where=where, hint=hint)
    words = ("qoslet", "bundle", "-o", "-", "--live", f"--kubelet-token={ACCOUNT}/token")
    data = kubectl(access, inside, "exec", found[0], "--container=agent", "--", *words, where=where)
    with NamedTemporaryFile(prefix=f"{name}-", suffix=".tar.gz") as file:
        file.write(data)
        file.flush()
        yield file.name
