"""The functions behind ``import qoslet``: the verbs' work without a process.

They raise ``BadInputs`` (all faults of the input at once) and never print. Paths are texts:
files, directories, or ``-`` for standard input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

from msgspec import structs

from qoslet.core.api.manifest import Loaded, Options
from qoslet.core.api.pod import Pod
from qoslet.core.convert.convert import (
    Conversion,
    ConversionRequest,
    conversion_request,
    convert_document,
)
from qoslet.core.convert.inputs import Kind, kind_of
from qoslet.core.convert.options import KINDS, argument, one_of, windows_of
from qoslet.core.convert.pods import convert_pods
from qoslet.core.diff.diff import Diff
from qoslet.core.diff.diff import diff as _diff
from qoslet.core.explain.explain import Explanation
from qoslet.core.explain.explain import explain as _explain
from qoslet.core.node.node import Node
from qoslet.core.oci.resources import block_of
from qoslet.core.plan.plan import plan as _plan
from qoslet.core.problem import Problem
from qoslet.core.resources.cgroup_tree import Plan
from qoslet.errors import BadInput, BadInputs
from qoslet.host.files import manifests
from qoslet.host.files import node as node_files
from qoslet.library_arguments import (
    ConvertOptions,
    as_arguments,
    checked,
    document_text,
    flags_from,
    must_be,
    one_set,
    path_texts,
    selector_text,
    words,
)
from qoslet.render.documents import encode
from qoslet.render.documents import plan as plan_document
from qoslet.render.documents.conversion import conversion_document
from qoslet.render.documents.diff import diff_document
from qoslet.render.documents.explanation import explanation_document
from qoslet.render.terminal import Terminal
from qoslet.render.text import conversion
from qoslet.render.text import diff as diff_text
from qoslet.render.text import plan as plan_text
from qoslet.render.text.explanation import draw

if TYPE_CHECKING:
    from qoslet.app.audit.machine import Audited
    from qoslet.render.documents.types.audit import AuditDocument
    from qoslet.render.documents.types.conversion import ConversionDocument
    from qoslet.render.documents.types.diff import DiffDocument
    from qoslet.render.documents.types.explanation import ExplanationDocument
    from qoslet.render.documents.types.plan import PlanDocument

    Answer = Plan | Explanation | Diff | Conversion | Audited


_PLAN = "qoslet.plan(...)"
_ANSWERS = "give what plan, explain, diff, convert or audit returned"


@checked
def load_pods(
    *paths: str | PathLike[str],
    expand: bool = False,
    allocated: bool = False,
    node_name: str | None = None,
    namespace: str | None = None,
    selector: str | Mapping[str, str] | None = None,
    recursive: bool = False,
) -> Loaded:
    """The pods of manifests, in their order, with what was met on the way.

    ``expand`` makes a pod for each replica of a template; ``allocated`` takes resources from
    the status; ``node_name`` leaves out the pods of other nodes; ``namespace`` and ``selector``
    choose pods as ``kubectl get pods -n`` and ``-l`` do; ``recursive`` reads the directories in a
    directory, too. Raises BadInputs.
    """
    for name, value in (("namespace", namespace), ("node_name", node_name)):
        must_be(name, "" if value is None else value, str, "such as default", what="text")
    chosen = selector_text(selector)
    options = Options(expand, allocated, node_name, namespace=namespace, selector=chosen)
    try:
        return manifests.load(path_texts(paths), options, recursive=recursive)
    except BadInputs as faults:
        raise as_arguments(faults) from None


@checked
def read_pods(
    document: str | bytes | Mapping[str, Any], *, name: str = "text", expand: bool = False
) -> Loaded:
    """The pods of YAML or JSON text, or of a decoded document, which messages call ``name``.
    Raises BadInputs."""
    must_be("name", name, str, "what messages call the document", what="text")
    return manifests.load_text(document_text(document, name), Options(expand), name=name)


def load_node(*paths: str | PathLike[str], **flags: object) -> Node:
    """The node that documents and flags describe; this machine for what they do not say.

    ``flags`` are the options of ``qoslet plan`` with underscores (``kubernetes="1.37"``), as text
    or as Python values: ``kube_reserved="cpu=500m"`` or ``{"cpu": "500m"}``. Raises BadInputs,
    UnknownArgument (a TypeError, too) for a flag that does not exist.
    """
    try:
        return node_files.load_node(path_texts(paths), flags_from(flags))[0]
    except BadInputs as faults:
        raise as_arguments(faults) from None


@checked
def plan(pods: Loaded | Sequence[Pod], node: Node, problems: Sequence[Problem] = ()) -> Plan:
    """The tree of groups that ``pods`` need on ``node``. What reading met is taken along from
    ``pods`` and from ``problems``; nothing is refused, see ``Plan.is_valid``. Raises BadInput for
    arguments of another type."""
    _check_types(pods, node)
    hint = "what qoslet.load_pods(...) has as problems"
    if not _all_are(problems, Problem):
        raise BadInput("must be a list of Problem", where="problems", hint=hint)
    if isinstance(pods, Loaded):
        return _plan(pods.pods, node, (*pods.problems, *problems))
    return _plan(pods, node, problems)


def _all_are(values: object, kind: type) -> bool:
    return isinstance(values, Sequence) and all(isinstance(one, kind) for one in values)


def _check_types(pods: object, node: object) -> None:
    must_be("node", node, Node, "qoslet.load_node(...)")
    if not isinstance(pods, Loaded) and not _all_are(pods, Pod):
        message = f"is {type(pods).__name__}, must be Loaded or a list of Pod"
        raise BadInput(message, where="pods", hint="qoslet.load_pods(...)")


@checked
def explain(
    plan: Plan, target: str, file: str | None = None, *, namespace: str | None = None
) -> Explanation:
    """Why the values of ``POD``, ``POD/CONTAINER`` or a group's name are what they are; with
    ``file`` also what other releases give. Raises BadInput for an unknown or ambiguous name."""
    must_be("plan", plan, Plan, _PLAN)
    must_be("target", target, str, "such as web/app", what="text")
    for name, value in (("file", file), ("namespace", namespace)):
        must_be(name, value or "", str, "such as memory.high and default", what="text")
    return _explain(plan, target, file, namespace)


@checked
def audit(plan: Plan) -> Audited:
    """This machine's cgroups compared with a plan, as ``qoslet audit -f`` does: what differs is read
    again after a quarter of a second. It only reads. Raises CannotDo where the machine is another than
    the plan's."""
    must_be("plan", plan, Plan, _PLAN)
    from qoslet.app.audit.machine import audit_machine

    return audit_machine(plan)


@checked
def diff(before: Plan, after: Plan) -> Diff:
    """Every value in which two plans differ, and what it means for the pods."""
    must_be("before", before, Plan, _PLAN)
    must_be("after", after, Plan, _PLAN)
    return _diff(before, after)


@checked
def convert(
    document: str | bytes | Mapping[str, Any],
    to: str,
    options: ConvertOptions | None = None,
    *,
    source: Kind | None = None,
    runtime: str = "runc-1.4",
    driver: str = "cgroupfs",
    hierarchy: str | None = None,
    update: bool = False,
    before: Mapping[str, Any] | None = None,
    usage: int | tuple[int, int] | None = None,
    without: str | Sequence[str] = (),
    node: Node | None = None,
    isolation: str = "process",
    processors: int | None = None,
    precedence: bool = False,
    kernel: str | None = None,
    name: str = "text",
) -> Conversion:
    """What the resource blocks of a document turn into, as ``qoslet convert`` says it.

    ``document`` is an OCI config.json or its ``linux.resources``, a message of the CRI, or pods (with
    the ``node`` they are for), as text or decoded; ``source`` says which where it does not show.
    ``to`` is v1, v2, systemd, oci, cri or windows; ``runtime`` as in ``runc-1.3.2``. With ``update``
    it is that of a running container, which has the block ``before`` and uses ``usage`` bytes of
    memory (and of swap); ``without`` names what the ``kernel`` (such as 6.12) lacks. Of a Windows machine are
    ``isolation`` and ``processors``; with ``precedence`` the design decides between CPU controls.
    ``options`` holds these as one value. A refusal is part of the answer, see ``Conversion.is_valid``. Raises BadInput.
    """
    chosen = one_set(
        options,
        ConvertOptions(
            runtime=runtime,
            driver=driver,
            hierarchy=hierarchy,
            update=update,
            before=before,
            usage=usage,
            without=without,
            isolation=isolation,
            processors=processors,
            precedence=precedence,
            kernel=kernel,
        ),
    )
    return _convert(document, to, chosen, source, node, name)


def _convert(
    document: object,
    to: str,
    chosen: ConvertOptions,
    source: Kind | None,
    node: Node | None,
    name: str,
) -> Conversion:
    problems: list[Problem] = []
    try:
        one_of(source, (None, *KINDS), "--from")
        request = _request(to, chosen, problems)
    except BadInput as fault:
        raise argument(fault) from None
    made = _converted(document, request, source, node, name)
    return structs.replace(made, problems=(*problems, *made.problems)) if problems else made


def _request(to: str, chosen: ConvertOptions, problems: list[Problem]) -> ConversionRequest:
    before, usage = chosen.before, chosen.usage
    if isinstance(usage, tuple) and len(usage) > 2:
        raise BadInput("has more than memory and swap", where="usage", hint="give (bytes, bytes)")
    had = block_of(before, "before", problems) if before is not None else None
    return conversion_request(
        to,
        chosen.runtime,
        driver=chosen.driver,
        hierarchy=chosen.hierarchy,
        update=chosen.update or had is not None,
        before=had,
        usage=usage if usage is None or isinstance(usage, tuple) else (usage, 0),
        without=words("without", chosen.without),
        windows=windows_of(chosen.isolation, chosen.processors, chosen.precedence),
        kernel=chosen.kernel,
    )


def _converted(
    document: object, request: ConversionRequest, source: Kind | None, node: Node | None, name: str
) -> Conversion:
    given = manifests.value_of(document, name) if isinstance(document, (str, bytes)) else document
    if not isinstance(given, Mapping):
        raise BadInput(f"is {type(given).__name__}, must be text or a mapping", where=name)
    kind = source or kind_of(given, name)
    if kind != "pod":
        return convert_document(given, request, kind, name)
    if node is None:
        raise BadInput("a pod needs a node", where=name, hint="node=qoslet.load_node(...)")
    must_be("node", node, Node, "qoslet.load_node(...)")
    loaded = manifests.load_text(document_text(given, name), Options(), name=name)
    return convert_pods(loaded.pods, node, request, loaded.problems)


@overload
def to_dict(answer: Plan) -> PlanDocument:
    """The document of ``-o json``, as Python values."""


@overload
def to_dict(answer: Explanation) -> ExplanationDocument:
    """The document of ``-o json``, as Python values."""


@overload
def to_dict(answer: Diff) -> DiffDocument:
    """The document of ``-o json``, as Python values."""


@overload
def to_dict(answer: Conversion) -> ConversionDocument:
    """The document of ``-o json``, as Python values."""


@overload
def to_dict(answer: Audited) -> AuditDocument:
    """The document of ``-o json``, as Python values."""


def to_dict(answer: Answer) -> Any:
    """The document of ``-o json``, as Python values. Raises BadInput for what is no answer."""
    return _document(answer)


def _document(answer: Answer) -> dict[str, object]:
    if isinstance(answer, Conversion):
        return conversion_document(answer)
    if isinstance(answer, Plan):
        return plan_document.plan_document(answer)
    if isinstance(answer, Diff):
        return diff_document(answer)
    if isinstance(answer, Explanation):
        return explanation_document(answer)
    # imported for audits, which most programs do not make
    from qoslet.app.audit.machine import Audited
    from qoslet.render.documents.audit import audit_document

    must_be("answer", answer, Audited, _ANSWERS, what="an answer")
    return audit_document(answer.plan, answer.report)


def to_json(answer: Answer) -> str:
    """The document of ``-o json``, as text."""
    return encode(_document(answer)).decode()


@checked
def to_text(answer: Answer, width: int = 80, *, exact: bool = False) -> str:
    """What the verb prints for people, without colour."""
    must_be("width", width, int, "the columns of the text", what="a number")
    terminal = Terminal(width=width)
    if isinstance(answer, Conversion):
        lines = conversion.draw(answer, terminal, verbose=exact)
    elif isinstance(answer, Plan):
        lines = plan_text.tree(answer, terminal, exact)
    elif isinstance(answer, Diff):
        lines = diff_text.draw(answer, terminal, verbose=exact)
    elif isinstance(answer, Explanation):
        single = all(len(group.values) == 1 for group in answer.groups)
        lines = draw(answer, terminal, full=single, exact=exact)
    else:
        from qoslet.app.audit.machine import Audited
        from qoslet.render.text.audit import audit as audit_text

        must_be("answer", answer, Audited, _ANSWERS, what="an answer")
        lines = audit_text.draw(answer.plan, answer.report, terminal, verbose=exact)
    return "\n".join(lines) + "\n"
