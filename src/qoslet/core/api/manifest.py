"""Documents to pods, with all faults.

``host.files`` reads the files. All faults are collected, each with its document and field path.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from qoslet.core.api.documents import Document, Spot, Text, run_document
from qoslet.core.api.documents import Options as Options
from qoslet.core.api.kinds import (
    TEMPLATE_MARK,
    TEMPLATES,
    content_of,
    no_pod,
    render_hint,
    template_of,
    unknown_hint,
)
from qoslet.core.api.loaded import Loaded as Loaded
from qoslet.core.api.loaded import UniquePods, claim_of
from qoslet.core.api.owners import Claim, Workload
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
from qoslet.core.problem import Problem
from qoslet.errors import BadInput

if TYPE_CHECKING:
    from qoslet.core.api.input.custom_resources import CustomResources, CustomTemplate
    from qoslet.core.api.input.pod_selection import Selection
    from qoslet.core.api.input.templates import Template

_READ = ("pod", "template", "config")
_HEAD = ("apiVersion", "kind", "metadata")


def pods_from(documents: Iterable[Document | BadInput], options: Options) -> Loaded:
    """Read every document; faults among ``documents`` keep their place in the order. Input
    without anything that may hold pods is a fault."""
    loader = _Loader(options, PodReader(options.allocated, trusts=True))
    loaded = loader.read(documents)
    if not loaded.sources and not loaded.faults:
        loaded.faults.append(no_pod(loaded.problems, seen=loaded.files))
    elif loader.selection is not None and (fault := loader.selection.fault()) is not None:
        loaded.faults.append(fault)
    return loaded


def some_pods(
    documents: Iterable[Document | BadInput], options: Options, reader: PodReader
) -> Loaded:
    """Read a part of the input, of which another part may have the RuntimeClasses."""
    loader = _Loader(options, reader)
    loader.admits = False
    return loader.read(documents)


class _Loader:
    def __init__(self, options: Options, reader: PodReader) -> None:
        self.loaded = Loaded([], [], [])
        self._options = options
        self._config = options.keep_raw
        self._reader = reader
        self._unique = UniquePods()
        self._expanded = 0
        self._owners = self.loaded.owners
        self.admits = True
        self.selection: Selection | None = None
        if options.namespace is not None or options.selector is not None:
            from qoslet.core.api.input.pod_selection import Selection

            self.selection = Selection(options.namespace, options.selector)
        self._templates: list[Template] = []
        self._custom: CustomResources | None = None
        self._numbers: dict[str, int] = {}

    def read(self, documents: Iterable[Document | BadInput]) -> Loaded:
        """Read all of them."""
        for document in documents:
            if isinstance(document, BadInput):
                self.loaded.add_fault(document)
            else:
                self.document(document)
        self.finish()
        return self.loaded

    def document(self, document: Document) -> None:
        """Read one document, or all items of a list."""
        envelope, spot = document.envelope, Spot(document)
        self.loaded.begin(document)
        kind = envelope.kind
        if not kind or not envelope.api_version:
            self._headless(document.data, spot, kind)
            return
        base = kind.removesuffix("List")
        content = (
            content_of(envelope.api_version, base, config=self._config)
            if base != kind
            else "unknown"
        )
        if kind == "List" and envelope.api_version == "v1":
            self._items(document, None)
        elif content in _READ:
            self._items(document, base)
        elif content == "custom" and envelope.items is not UNSET:
            self._items(document, None)
        elif content in ("other", "node"):
            self._skip(spot, spot.where, envelope.api_version, kind)
        else:
            self._item(document.data, spot, None)

    def _items(self, document: Document, implied: str | None) -> None:
        items = document.envelope.items
        if items is UNSET:
            hint = "write an empty list as items: []"
            self._fault(f"{document.where}: items", "is missing", hint)
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
        if (value := self._value(raw, spot)) is None:
            return
        head, faults = collect({key: value[key] for key in _HEAD if key in value}, PodShape)
        if any(path in ("apiVersion", "kind") for path, _ in faults):
            self._type_faults(spot.where, faults)
            return
        kind = head.get("kind") or implied
        if kind == "Pod" and content_of(head.get("apiVersion"), kind) == "pod":
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
        if kind.endswith("List") and spot.item >= 0:
            from qoslet.core.api.input.nested_lists import nested  # where a list has a list

            for document in nested(raw, spot, self.loaded.add_fault):
                self.document(document)
            return
        content = content_of(api_version, kind, config=self._config)
        if content == "template":
            self.loaded.sources += 1
            self._template(raw, spot, kind)
        elif content == "custom":
            from qoslet.core.api.input.custom_resources import CustomResources

            self._custom = self._custom or CustomResources(self.loaded.add_fault)
            found = self._custom.templates(raw, spot, api_version, kind, meta)
            self.loaded.sources += bool(found)
            for custom in found:
                self._template(custom.document, spot, kind, custom)
        elif content == "config":
            from qoslet.core.api.config.objects import take_config  # for those who run pods

            where, value = spot.named(kind, meta), self._value(raw, spot)
            take_config(kind, value, where, self.loaded.config, self.loaded.add_fault)
        elif kind == "RuntimeClass" and content == "other":
            from qoslet.core.api.platform.runtime_class import take  # where there is one

            where, classes = spot.named(kind, meta), self.loaded.runtime_classes
            take(raw, meta, where, classes, self.loaded.add_fault)
        elif content in ("other", "node"):
            self._skip(spot, spot.named(kind, meta), api_version, kind)
        else:
            message = f"{shown(api_version or '')} {shown(kind)} is not a known kind"
            self._fault(spot.named(kind, meta), message.lstrip(), unknown_hint(api_version, kind))

    def _headless(self, raw: Raw | Text, spot: Spot, kind: str | None) -> None:
        from qoslet.core.api.input.unrendered import headless

        found = headless(raw, spot, kind)
        if isinstance(found, Problem):
            self.loaded.problems.append(found)
        else:
            self.loaded.add_fault(found)

    def _skip(self, spot: Spot, where: str, api_version: str | None, kind: str) -> None:
        from qoslet.core.api.input.unrendered import skipped_row

        self.loaded.problems.append(skipped_row(spot.document.file, where, api_version, kind))

    def _pod(self, shape: PodShape, raw: Raw | Text, spot: Spot, types: list[TypeFault]) -> None:
        if self.selection is not None and not self.selection.takes(shape.metadata, shape):
            return
        where = spot.named("Pod", shape.metadata)
        self._type_faults(where, types)
        pod = self._build(shape, DocumentPath(where, shape.metadata), types, raw)
        if pod is None:
            return
        if pod.node_name and not pod.has_ended:
            self.loaded.nodes[pod.node_name] = self.loaded.nodes.get(pod.node_name, 0) + 1
        if reason := pod.left_out(self._options.node_name):
            self.loaded.leave_out(pod, reason)
            return
        self._owners.saw_pod(shape.metadata)
        claim = None
        if not (shape.metadata and shape.metadata.name):
            claim = claim_of("Pod", "", shape.metadata, pod, spot, self._numbers)
        kept = self._add(pod, spot, claim)
        value = self._value(raw, spot) if kept is not None and self._options.keep_raw else None
        if kept is not None and value is not None:
            self.loaded.raw[kept.uid] = run_document(value, kept, value)
            self.loaded.statuses[kept.uid] = value.get("status")

    def _template(
        self, raw: Raw | Text, spot: Spot, kind: str, custom: CustomTemplate | None = None
    ) -> None:
        """A pod template; ``custom`` is that of a custom resource."""
        types: list[TypeFault] = []
        try:
            shape = decode_workload(raw)
        except DECODE_ERRORS:
            if (value := self._value(raw, spot)) is None:
                return
            clean, types = collect(value, WorkloadShape)
            shape = decode_workload(msgspec.json.encode(clean))
        where = custom.where if custom else spot.named(kind, shape.metadata)
        self._type_faults(where, types)
        spec = shape.spec or WorkloadSpecShape()
        template = spec.template if custom else template_of(shape, spec, kind)
        path = custom.path if custom else TEMPLATES[kind]
        if template is None:
            if not any(f"{path}.".startswith(f"{fault}.") for fault, _ in types):
                from qoslet.core.api.input.misspelt import misspelt

                hint = misspelt(raw, path) or f"a {kind} has a pod template"
                self._fault(f"{where}: {path}", "is missing", hint)
            return
        if self.selection is not None and not self.selection.takes(shape.metadata, template):
            return
        from qoslet.core.api.input.templates import Template, numbered, surroundings

        around = surroundings("" if custom else kind, spec, template, path)
        place = DocumentPath(where, shape.metadata, f"{path}.", *around)
        pod = self._build(template, place, types, raw)
        if pod is None:
            return
        name, group = (custom.owner, custom.group) if custom else ("", "")
        workload = Workload(kind, pod.namespace, name or pod.name)
        self._owners.saw_template(workload, shape.metadata)
        raw_value = self._value(raw, spot) if self._options.keep_raw else None
        after = len(self.loaded.pods)
        claim = numbered(claim_of(kind, group, shape.metadata, pod, spot, self._numbers), spec)
        inner = "spec.template" if custom else path
        self._templates.append(Template(after, workload, pod, spec, raw_value, spot, inner, claim))

    def finish(self) -> None:
        """Put in the pods of templates: only now it is known which of them count."""
        plain, self.loaded.pods, done = self.loaded.pods, [], 0
        for template in self._templates:
            self.loaded.pods += plain[done : template.after]
            done = template.after
            if reason := self._owners.left_out(template.workload):
                self.loaded.problems.append(Problem("info", template.pod.where, reason, ""))
                continue
            self._expand(template)
        self.loaded.pods += plain[done:]
        self._unique.settle(self.loaded)
        classes = self.loaded.runtime_classes if self.admits else {}
        if classes:
            from qoslet.core.api.platform.runtime_class import admit_all

            admit_all(self.loaded.pods, classes, self.loaded.problems, self.loaded.add_fault)
        if self.selection is not None:
            self.loaded.problems += self.selection.rows()
        if self._custom is not None:
            self.loaded.problems += self._custom.rows()
        if len(self.loaded.nodes) > 1 and not self._options.node_name:
            from qoslet.core.api.input.pod_selection import several_nodes

            self.loaded.problems.append(several_nodes(self.loaded.nodes))

    def _expand(self, template: Template) -> None:
        """Put in the pods of one template."""
        try:
            copies = template.copies(self._options.expand, self._expanded)
        except BadInput as fault:
            self.loaded.add_fault(fault)
            return
        self._expanded += len(copies) if self._options.expand else 0
        for copy in copies:
            kept = self._add(copy, template.spot, template.claim_of(copy))
            if kept is None:
                continue
            self.loaded.templates[kept.uid] = template.workload
            if template.raw is not None:
                self.loaded.raw[kept.uid] = template.document(kept)

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
                near = ""
                if fault.missing:
                    from qoslet.core.api.input.misspelt import misspelt

                    near = misspelt(raw, fault.path)
                self._fault(f"{place.where}: {fault.path}", fault.message, near or fault.hint)
        return None if types else built.pod

    def _add(self, pod: Pod, spot: Spot, claim: Claim | None = None) -> Pod | None:
        """Keep the pod unless it is there already, or another one has its UID. Where another object
        has its name it waits for one of its own."""
        kept = self._unique.add(pod, spot, claim)
        if isinstance(kept, BadInput):
            self.loaded.add_fault(kept)
            return None
        if claim is not None:
            self.loaded.claims[kept.uid] = claim
        self.loaded.pods.append(kept)
        return kept

    def _type_faults(self, where: str, faults: list[TypeFault]) -> None:
        for path, message in faults:
            quote = "must be a string, is a" in message and "an " not in message
            self._fault(f"{where}: {path}", message, "put it in quotes" if quote else "")

    def _fault(self, where: str, message: str, hint: str = "") -> None:
        hint = render_hint() if TEMPLATE_MARK in message else hint
        self.loaded.add_fault(BadInput(message, where=where, hint=hint))
