"""Documents to pods, with all faults.

``host.files`` reads the files. All faults are collected, each with its document and field path.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, Struct, field

from qoslet.core.api.documents import Document, Spot, Text, run_document
from qoslet.core.api.ids import generated_uid
from qoslet.core.api.kinds import TEMPLATES, carrier, no_pod, template_of, unknown_hint
from qoslet.core.api.misspelt import misspelt
from qoslet.core.api.owners import Owners, TemplateDocument, Workload
from qoslet.core.api.pod import Pod
from qoslet.core.api.pod_decoder import DocumentPath, PodReader
from qoslet.core.api.schema import (
    DECODE_ERRORS,
    TYPE_FAULTS_MAX,
    Metadata,
    PodShape,
    TypeFault,
    WorkloadShape,
    WorkloadSpecShape,
    collect,
    decode_pod,
    decode_workload,
    follows,
    shown,
    type_name,
)
from qoslet.core.problem import Problem, ProblemCode
from qoslet.errors import BadInput

if TYPE_CHECKING:
    from qoslet.core.api.config.objects import ConfigObject

FAULTS_KEPT = 1000
"""Faults that are kept; more are only counted, whatever the input holds."""

_READ = ("pod", "template", "config")

EXPANDED_MAX = 100_000
"""Pods that ``expand`` makes at most, from all documents together."""


class Options(Struct, frozen=True):
    """How documents become pods.

    ``expand`` makes as many pods of a template as it asks for, else it counts once.
    ``allocated`` takes resources from the status, where they are actuated. ``node_name`` leaves
    out the pods of other nodes. ``keep_raw`` keeps the documents of the pods in ``Loaded.raw`` and
    reads ConfigMaps and Secrets.
    """

    expand: bool = False
    allocated: bool = False
    node_name: str | None = None
    keep_raw: bool = False


class Loaded(Struct):
    """All pods in the order of their documents, and the problems of the documents.

    ``sources`` counts the documents that may hold pods, an empty list of them included;
    ``more_faults`` the faults beyond ``FAULTS_KEPT``. ``raw`` holds ``{"metadata", "spec"}`` of
    each pod by its UID, a template's merged with its owner's name, when the options ask for it;
    ``templates``, by UID, whose templates pods stand for; ``owners`` who made what; ``config`` the
    ConfigMaps and Secrets.
    """

    pods: list[Pod]
    problems: list[Problem]
    faults: list[BadInput]
    sources: int = 0
    more_faults: int = 0
    raw: dict[str, Any] = {}
    templates: dict[str, Workload] = {}
    owners: Owners = field(default_factory=Owners)
    config: list[ConfigObject] = []


def pods_from(documents: Iterable[Document | BadInput], options: Options) -> Loaded:
    """Read every document; faults among ``documents`` keep their place in the order. Input
    without anything that may hold pods is a fault."""
    loaded = some_pods(documents, options, PodReader(options.allocated))
    if not loaded.sources and not loaded.faults:
        loaded.faults.append(no_pod(loaded.problems))
    return loaded


def some_pods(
    documents: Iterable[Document | BadInput], options: Options, reader: PodReader
) -> Loaded:
    """Read documents that are a part of the input."""
    loader = _Loader(options, reader)
    for document in documents:
        if isinstance(document, BadInput):
            loader.add_fault(document)
        else:
            loader.document(document)
    loader.finish()
    return loader.loaded


class _Loader:
    def __init__(self, options: Options, reader: PodReader) -> None:
        self.loaded = Loaded([], [], [])
        self._options = options
        self._reader = reader
        self._names: dict[str, Spot] = {}
        self._uids: dict[str, tuple[str, Spot]] = {}
        self._expanded = 0
        self._owners = self.loaded.owners
        self._templates: list[TemplateDocument] = []

    def document(self, document: Document) -> None:
        """Read one document, or all items of a list."""
        envelope, spot = document.envelope, Spot(document)
        kind = envelope.kind
        if not kind or not envelope.api_version:
            self._headless(document.data, spot, kind)
            return
        base = kind.removesuffix("List")
        if kind == "List" and envelope.api_version == "v1":
            self._items(document, None)
        elif (
            base != kind
            and carrier(envelope.api_version, base, config=self._options.keep_raw) in _READ
        ):
            self._items(document, base)
        elif base != kind and carrier(envelope.api_version, base) != "unknown":
            self._skip(spot.where, envelope.api_version, kind)
        else:
            self._item(document.data, spot, None)

    def _items(self, document: Document, implied: str | None) -> None:
        items = document.envelope.items
        if items is UNSET:
            where = f"{document.where}: items"
            self._fault(where, "is missing", "write an empty list as items: []")
            return
        if not items:
            self.loaded.sources += 1
        for index, raw in enumerate(items or ()):
            self._item(raw, Spot(document, index), implied)

    def _item(self, raw: Raw | Text, spot: Spot, implied: str | None) -> None:
        try:
            shape = decode_pod(raw)
        except DECODE_ERRORS:
            self._odd_item(raw, spot, implied)
            return
        kind = shape.kind or implied
        if kind == "Pod" and (shape.api_version or (implied and "v1")) == "v1":
            self.loaded.sources += 1
            self._pod(shape, raw, spot, [])
        else:
            self._dispatch(raw, spot, shape.api_version, kind, implied, shape.metadata)

    def _value(self, raw: Raw | Text, spot: Spot) -> dict[str, Any] | None:
        """The whole object, untyped; None with a fault where there is none."""
        try:
            value = msgspec.json.decode(raw)
        except DECODE_ERRORS as error:
            message = f"cannot be read: {shown(str(error))}"
            self._fault(spot.where, message, "check the document's text")
            return None
        if isinstance(value, dict):
            return value
        self._fault(spot.where, f"must be an object, is {type_name(value)}")
        return None

    def _odd_item(self, raw: Raw | Text, spot: Spot, implied: str | None) -> None:
        """An item that is no well-typed pod: another kind, or one with type faults."""
        value = self._value(raw, spot)
        if value is None:
            return
        head, faults = collect(
            {key: value[key] for key in ("apiVersion", "kind", "metadata") if key in value},
            PodShape,
        )
        if any(path in ("apiVersion", "kind") for path, _ in faults):
            self._type_faults(spot.where, faults)
            return
        kind = head.get("kind") or implied
        if kind == "Pod" and carrier(head.get("apiVersion"), kind) == "pod":
            clean, faults = collect(value, PodShape)
            self.loaded.sources += 1
            self._pod(decode_pod(msgspec.json.encode(clean)), raw, spot, faults)
            return
        meta = msgspec.convert(head.get("metadata") or {}, Metadata)
        self._dispatch(raw, spot, head.get("apiVersion"), kind, implied, meta)

    def _dispatch(
        self,
        raw: Raw | Text,
        spot: Spot,
        api_version: str | None,
        kind: str | None,
        implied: str | None,
        meta: Metadata | None,
    ) -> None:
        """Everything that is no plain Pod."""
        if not kind or not (api_version or implied):
            self._headless(raw, spot, kind)
            return
        carried = carrier(api_version, kind, config=self._options.keep_raw)
        if carried == "template":
            self.loaded.sources += 1
            self._template(raw, spot, kind)
        elif carried == "config":
            self._config(raw, spot, kind, meta)
        elif carried in ("other", "node"):
            self._skip(spot.named(kind, meta), api_version, kind)
        else:
            message = f"{shown(api_version or '')} {shown(kind)} is not a known kind"
            self._fault(spot.named(kind, meta), message.lstrip(), unknown_hint(api_version, kind))

    def _config(self, raw: Raw | Text, spot: Spot, kind: str, meta: Metadata | None) -> None:
        from qoslet.core.api.config.objects import config_object  # for those who run pods

        value = self._value(raw, spot)
        if value is not None:
            one, faults = config_object(kind, value, spot.named(kind, meta))
            self.loaded.config += one
            for fault in faults:
                self.add_fault(fault)

    def _headless(self, raw: Raw | Text, spot: Spot, kind: str | None) -> None:
        missing = "apiVersion" if kind else "kind"
        hint = misspelt(raw, missing) or "every Kubernetes document has apiVersion and kind"
        self._fault(f"{spot.where}: {missing}", "is missing", hint)

    def _skip(self, where: str, api_version: str | None, kind: str) -> None:
        hint, code = "", ProblemCode.OTHER
        if carrier(api_version, kind) == "node":
            hint, code = "use --node for a node", ProblemCode.NODE_AMONG_PODS
        message = f"{shown(kind)} skipped: it has no pods"
        self.loaded.problems.append(Problem("info", where, message, hint, code))

    def _pod(self, shape: PodShape, raw: Raw | Text, spot: Spot, types: list[TypeFault]) -> None:
        where = spot.named("Pod", shape.metadata)
        self._type_faults(where, types)
        pod = self._build(shape, DocumentPath(where, shape.metadata), types, raw)
        if pod is None or self._left_out(pod):
            return
        self._owners.saw_pod(shape.metadata)
        if self._add(pod, spot) and self._options.keep_raw:
            value = self._value(raw, spot)
            if value is not None:
                self.loaded.raw[pod.uid] = run_document(value, pod, value)

    def _template(self, raw: Raw | Text, spot: Spot, kind: str) -> None:
        types: list[TypeFault] = []
        try:
            shape = decode_workload(raw)
        except DECODE_ERRORS:
            value = self._value(raw, spot)
            if value is None:
                return
            clean, types = collect(value, WorkloadShape)
            shape = decode_workload(msgspec.json.encode(clean))
        where = spot.named(kind, shape.metadata)
        self._type_faults(where, types)
        spec = shape.spec or WorkloadSpecShape()
        template = template_of(shape, spec, kind)
        path = TEMPLATES[kind]
        if template is None:
            if not any(f"{path}.".startswith(f"{fault}.") for fault, _ in types):
                hint = misspelt(raw, path) or f"a {kind} has a pod template"
                self._fault(f"{where}: {path}", "is missing", hint)
            return
        # imported where there is a template
        from qoslet.core.api.validation.workloads import around_template

        around = around_template(kind, spec, template, path)
        place = DocumentPath(where, shape.metadata, f"{path}.", *around)
        pod = self._build(template, place, types, raw)
        if pod is None:
            return
        workload = Workload(kind, pod.namespace, pod.name)
        self._owners.saw_template(workload, shape.metadata)
        raw_value = self._value(raw, spot) if self._options.keep_raw else None
        after = len(self.loaded.pods)
        self._templates.append(TemplateDocument(after, workload, pod, spec, raw_value, spot))

    def finish(self) -> None:
        """Put in the pods of templates: only now it is known which of them count."""
        plain, self.loaded.pods, done = self.loaded.pods, [], 0
        for template in self._templates:
            self.loaded.pods += plain[done : template.after]
            done = template.after
            reason = self._owners.left_out(template.workload)
            if reason:
                row = Problem("info", template.pod.where, reason, "")
                self.loaded.problems.append(row)
                continue
            kind = template.workload.kind
            for copy in self._copies(template.pod, template.spec, kind):
                if not self._add(copy, template.spot):
                    continue
                self.loaded.templates[copy.uid] = template.workload
                if template.raw is not None:
                    inner = template.raw
                    for step in TEMPLATES[kind].split("."):
                        inner = inner[step]
                    self.loaded.raw[copy.uid] = run_document(inner, copy, template.raw)
        self.loaded.pods += plain[done:]

    def _copies(self, pod: Pod, spec: WorkloadSpecShape, kind: str) -> list[Pod]:
        """The pods that a template stands for."""
        count = spec.parallelism if kind == "Job" else spec.replicas
        if kind in ("DaemonSet", "CronJob", "PodTemplate") or count is None:
            count = 1
        field = "spec.parallelism" if kind == "Job" else "spec.replicas"
        if count < 0:
            self._fault(f"{pod.where}: {field}", f"{shown(str(count), 20)} is negative")
            return []
        if not self._options.expand:
            return [pod]
        if self._expanded + count > EXPANDED_MAX:
            message = f"{shown(str(count), 20)} is too many pods"
            hint = f"--expand creates at most {EXPANDED_MAX} pods; leave it out"
            self._fault(f"{pod.where}: {field}", message, hint)
            return []
        self._expanded += count
        names = [f"{pod.name}-{index}" for index in range(count)]
        return [
            msgspec.structs.replace(pod, name=name, uid=generated_uid(pod.namespace, name))
            for name in names
        ]

    def _build(
        self, shape: PodShape, place: DocumentPath, types: list[TypeFault], raw: Raw | Text
    ) -> Pod | None:
        if len(types) >= TYPE_FAULTS_MAX:
            return None
        built = self._reader.build(shape, place)
        for note in built.notes:
            where = f"{place.where}: {note.path}"
            self.loaded.problems.append(Problem(note.severity, where, note.message, note.hint))
        broken = {path for path, _ in types}
        for fault in built.faults:
            if not (broken and follows(fault.path, broken)):
                near = misspelt(raw, fault.path) if fault.missing else ""
                self._fault(f"{place.where}: {fault.path}", fault.message, near or fault.hint)
        return None if types else built.pod

    def _left_out(self, pod: Pod) -> bool:
        if pod.phase in ("Succeeded", "Failed"):
            message = f"left out: it has {pod.phase.lower()} and uses no resources"
        elif self._options.node_name and pod.node_name not in (None, self._options.node_name):
            message = f"left out: it runs on node {pod.node_name}"
        else:
            return False
        self.loaded.problems.append(Problem("info", pod.where, message, ""))
        return True

    def _add(self, pod: Pod, spot: Spot) -> bool:
        """Keep the pod unless another one has its name or UID."""
        key = pod.key
        first = self._names.setdefault(key, spot)
        if first is not spot:
            message = f"{key} occurs twice in the input: also at {first.where}"
            hint = (
                "names are unique in a namespace; a template counts as a pod with its owner's name"
            )
            self._fault(f"{pod.where} ({spot.where}): metadata.name", message, hint)
            return False
        other, place = self._uids.setdefault(pod.uid, (key, spot))
        if other != key:
            message = f"{pod.uid} is also the UID of {other}, at {place.where}"
            hint = "give each pod a unique UID, or none: qoslet derives one"
            self._fault(f"{pod.where}: metadata.uid", message, hint)
            return False
        self.loaded.pods.append(pod)
        return True

    def _type_faults(self, where: str, faults: list[TypeFault]) -> None:
        for path, message in faults:
            quote = "must be a string, is a" in message and "an " not in message
            self._fault(f"{where}: {path}", message, "put it in quotes" if quote else "")

    def _fault(self, where: str, message: str, hint: str = "") -> None:
        self.add_fault(BadInput(message, where=where, hint=hint))

    def add_fault(self, fault: BadInput) -> None:
        """Keep a fault, or count it when there are plenty."""
        if len(self.loaded.faults) < FAULTS_KEPT:
            self.loaded.faults.append(fault)
        else:
            self.loaded.more_faults += 1
