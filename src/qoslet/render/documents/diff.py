"""A difference as a document: ``kind: Diff`` of ``qoslet/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qoslet.render.documents import API_VERSION, Document, problem_row
from qoslet.render.documents.plan import node_block

if TYPE_CHECKING:
    from qoslet.core.diff.diff import Change, Diff, Share
    from qoslet.core.resources.cgroup_tree import Cgroup


def diff_document(diff: Diff) -> Document:
    """The whole answer, as ``qoslet diff -o json`` prints it."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Diff",
        "from": node_block(diff.before),
        "to": node_block(diff.after),
        "changes": [_change(change) for change in diff.changes],
        "summary": {
            "worse": diff.worse,
            "better": diff.better,
            "changed": len(diff.changes),
        },
        "shares": [_share(share) for share in diff.shares],
        "hints": [
            {
                "pod": {"namespace": hint.pod.namespace, "name": hint.pod.name},
                "container": hint.container,
                "image": hint.image,
                "message": hint.message,
            }
            for hint in diff.hints
        ],
        "problems": [problem_row(row) for row in diff.warnings],
    }


def _change(change: Change) -> Document:
    before, after = change.before, change.after
    return {
        "name": change.name,
        **_place(change.cgroup),
        "file": change.file,
        "from": None if before is None else before.beside(after),
        "to": None if after is None else after.beside(before),
        "rules": [None if one is None else one.rule for one in (before, after)],
        "severity": change.severity,
        "direction": change.direction,
        "aspect": change.aspect,
        "meaning": change.meaning,
    }


def _share(share: Share) -> Document:
    return {
        "name": share.name,
        **_place(share.cgroup),
        "from": round(share.before, 6),
        "to": round(share.after, 6),
        "direction": share.direction,
    }


def _place(cgroup: Cgroup | None) -> Document:
    """Whose cgroup it is; that of the node where it is nobody's."""
    pod = None if cgroup is None else cgroup.pod
    container = None if cgroup is None else cgroup.container
    return {
        "level": "node" if cgroup is None else cgroup.level,
        "pod": None if pod is None else {"namespace": pod.namespace, "name": pod.name},
        "container": None if container is None else container.name,
    }
