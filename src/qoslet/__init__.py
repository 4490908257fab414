"""qoslet: the cgroups that Kubernetes pods must have on a node, and why.

>>> import qoslet
>>> node = qoslet.load_node("node.yaml")
>>> plan = qoslet.plan(qoslet.load_pods("pods.yaml"), node)
>>> plan.is_valid
True

What ``__all__`` names is public and versioned; everything else may change. Names are imported
when they are first used, so ``import qoslet`` itself costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qoslet.app.audit.machine import Audited
    from qoslet.core.api.manifest import Loaded
    from qoslet.core.api.pod import Container, Pod
    from qoslet.core.convert.convert import Conversion
    from qoslet.core.diff.diff import Diff
    from qoslet.core.explain.explain import Explanation
    from qoslet.core.node.node import Node
    from qoslet.core.problem import Problem
    from qoslet.core.quantity import Quantity
    from qoslet.core.resources.cgroup_tree import Cgroup, Plan, Setting
    from qoslet.errors import BadInput, BadInputs, CannotDo, QosletError, UnknownArgument
    from qoslet.library import (
        audit,
        convert,
        diff,
        explain,
        load_node,
        load_pods,
        plan,
        read_pods,
        to_dict,
        to_json,
        to_text,
    )
    from qoslet.library_arguments import ConvertOptions
    from qoslet.render.documents.types.audit import AuditDocument
    from qoslet.render.documents.types.conversion import ConversionDocument
    from qoslet.render.documents.types.diff import DiffDocument
    from qoslet.render.documents.types.explanation import ExplanationDocument
    from qoslet.render.documents.types.plan import PlanDocument
    from qoslet.version import VERSION as __version__  # noqa: N811

__all__ = [
    "AuditDocument",
    "Audited",
    "BadInput",
    "BadInputs",
    "CannotDo",
    "Cgroup",
    "Container",
    "Conversion",
    "ConversionDocument",
    "ConvertOptions",
    "Diff",
    "DiffDocument",
    "Explanation",
    "ExplanationDocument",
    "Loaded",
    "Node",
    "Plan",
    "PlanDocument",
    "Pod",
    "Problem",
    "QosletError",
    "Quantity",
    "Setting",
    "UnknownArgument",
    "__version__",
    "audit",
    "convert",
    "diff",
    "explain",
    "load_node",
    "load_pods",
    "plan",
    "read_pods",
    "to_dict",
    "to_json",
    "to_text",
]

_HOMES = {
    "errors": ("BadInput", "BadInputs", "CannotDo", "QosletError", "UnknownArgument"),
    "library_arguments": ("ConvertOptions",),
    "app.audit.machine": ("Audited",),
    "render.documents.types.audit": ("AuditDocument",),
    "render.documents.types.conversion": ("ConversionDocument",),
    "render.documents.types.diff": ("DiffDocument",),
    "render.documents.types.explanation": ("ExplanationDocument",),
    "render.documents.types.plan": ("PlanDocument",),
    "core.convert.convert": ("Conversion",),
    "core.diff.diff": ("Diff",),
    "core.explain.explain": ("Explanation",),
    "core.api.manifest": ("Loaded",),
    "core.node.node": ("Node",),
    "core.api.pod": ("Container", "Pod"),
    "core.quantity": ("Quantity",),
    "core.problem": ("Problem",),
    "core.resources.cgroup_tree": ("Cgroup", "Plan", "Setting"),
    "library": (
        "audit",
        "convert",
        "diff",
        "explain",
        "load_node",
        "load_pods",
        "plan",
        "read_pods",
        "to_dict",
        "to_json",
        "to_text",
    ),
}


def __getattr__(name: str) -> object:
    """The public name, from the module that defines it. Raises AttributeError."""
    from importlib import import_module

    if name == "__version__":
        return import_module("qoslet.version").VERSION
    for home, names in _HOMES.items():
        if name in names:
            found: object = getattr(import_module(f"qoslet.{home}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module 'qoslet' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
