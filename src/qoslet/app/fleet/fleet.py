"""The nodes and pods of a cluster, read as a stream and planned by all processors."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from qoslet.app.cluster_access import cluster_access
from qoslet.app.fleet.inputs import Configured, configured, fit_of, read_bundle, yaml_texts
from qoslet.core.api.input.label_selector import label_selector
from qoslet.core.fleet.cluster import Cluster
from qoslet.core.fleet.plan import Fleet, FleetPlanner, NodeResult, fleet_of
from qoslet.core.fleet.read import BatchReader, Rows
from qoslet.core.fleet.splitter import Batch, ItemSplitter
from qoslet.core.problem import Problem, ProblemCode
from qoslet.errors import BadInput, BadInputs
from qoslet.host.files.blocks import FileStream, files_of, is_bundle
from qoslet.host.linux.processes.workers import processors, spread

if TYPE_CHECKING:
    import argparse

    from qoslet.core.fleet.fit import FitRequest
    from qoslet.host.cluster.client_library import ClusterAccess

Progress = Callable[[str, int, int | None], None]
"""Takes what is being done, how much of it is done, and how much there is, if that is known."""

_SMALL = 4 << 20
"""Text below this is read by one process: starting others takes longer."""
_NODES_AT_ONCE = 64


def plan_fleet(
    args: argparse.Namespace, sides: Sequence[argparse.Namespace], progress: Progress
) -> Fleet:
    """Read and plan all nodes of the command line, on each of ``sides``. Broken documents are rows.
    Raises BadInputs where nothing could be read, BadInput, CannotDo."""
    paths = [*args.filename, *args.paths]
    access = cluster_access(args)
    if not paths and access is None:
        hint = "kubectl get nodes,pods -A -o json | qoslet fleet -, or qoslet fleet --cluster"
        raise BadInput("no cluster given", where="-f", hint=hint)
    chosen = configured(args, sides)
    fit = fit_of(args.fit) if args.fit else None
    files = files_of(paths, args.recursive) if paths else []
    jobs = args.jobs or processors()
    cluster = Cluster(chosen.exact)
    _read(cluster, _Input(files, progress, access), args, chosen, jobs)
    if not cluster.nodes:
        raise _nothing(cluster, files)
    _tell_unused(cluster, args.node_with)
    results = _planned(cluster, chosen, jobs, fit, progress)
    return fleet_of(cluster, results, fit)


def _tell_unused(cluster: Cluster, node_with: Sequence[tuple[str, str]]) -> None:
    """A row for each configuration that is for no node."""
    for text, path in node_with:
        selector = label_selector(text)
        if not any(selector.matches(row.labels) for row in cluster.nodes.values()):
            where, message = f"--node-with {text} {path}", "no node has these labels"
            hint = "kubectl get nodes --show-labels lists them"
            cluster.problems.add(Problem("warning", where, message, hint))


def _nothing(cluster: Cluster, files: Sequence[str]) -> BadInputs:
    """The faults of input without a node."""
    faults = [
        BadInput(row.problem.message, where=row.problem.where, hint=row.problem.hint)
        for row in cluster.problems.rows()
        if row.problem.severity == "error"
    ][:20]
    first = files[0] if files else "the cluster"
    where = "stdin" if first == "-" else first
    hint = "kubectl get nodes,pods -A -o json"
    if not faults or cluster.pods or cluster.skipped:
        # something could be read, so that what is wrong does not say why there is no node
        faults.append(BadInput("contains no node", where=where, hint=hint))
    return BadInputs(faults)


class _Input(Struct):
    """The batches of all files, and what was met on the way."""

    files: Sequence[str]
    progress: Progress
    access: ClusterAccess | None = None
    faults: list[BadInput] = []
    bundles: list[str] = []

    def batches(self) -> Iterator[Batch]:
        """The batches of the cluster, and then file by file. Raises BadInput, CannotDo."""
        if self.access is not None:
            from qoslet.app.fleet.cluster_items import cluster_items

            yield from self._only(cluster_items(self.access, self.progress))
        for path in self.files:
            if is_bundle(path):
                self.bundles.append(path)
                continue
            try:
                yield from self._of(path)
            except BadInput as error:
                self.faults += error.faults

    def _of(self, path: str) -> Iterator[Batch]:
        blocks = FileStream(path)
        splitter = ItemSplitter(blocks.name)
        texts: Iterator[bytes] = iter(blocks)
        first = next((block for block in texts if block.strip()), b"").removeprefix(BOM_UTF8)
        if not first.lstrip().startswith((b"{", b"[")):
            texts, first = yaml_texts(first, texts, blocks.name), b""
        try:
            yield from self._only(splitter.feed(first))
            for block in texts:
                yield from self._only(splitter.feed(block))
                self.progress(f"reading {blocks.name}", blocks.position, blocks.size)
        except BadInput as error:
            self.faults += error.faults
        yield from self._only(splitter.finish())

    def _only(self, found: Iterator[Batch | BadInput]) -> Iterator[Batch]:
        for one in found:
            if isinstance(one, BadInput):
                self.faults.append(one)
            else:
                yield one


def _read(
    cluster: Cluster,
    source: _Input,
    args: argparse.Namespace,
    chosen: Configured,
    jobs: int,
) -> None:
    """Fill the cluster."""
    allocated = args.resources == "allocated"
    batches = source.batches()
    first: list[Batch] = []
    while jobs > 1 and sum(len(one.data) for one in first) < _SMALL:
        batch = next(batches, None)
        if batch is None:
            jobs = 1
            break
        first.append(batch)

    def begin() -> Callable[[Batch], Rows]:
        return BatchReader(allocated).read

    def every() -> Iterator[Batch]:
        yield from first
        first.clear()
        yield from batches

    for reader, rows in spread(every(), begin, jobs):
        cluster.add(rows, reader)
    for path in source.bundles:
        try:
            cluster.add_bundle(*read_bundle(path, chosen))
        except BadInput as error:
            source.faults += error.faults
    for fault in source.faults:
        row = Problem("error", fault.where, fault.message, fault.hint, ProblemCode.UNREAD)
        cluster.problems.add(row)
    cluster.finish()


def _planned(
    cluster: Cluster, chosen: Configured, jobs: int, fit: FitRequest | None, progress: Progress
) -> Iterator[NodeResult]:
    """The results of all nodes, in the order of the input."""
    names = list(cluster.nodes)
    parts = [names[at : at + _NODES_AT_ONCE] for at in range(0, len(names), _NODES_AT_ONCE)]

    def begin() -> Callable[[list[str]], list[NodeResult]]:
        planner = FleetPlanner(cluster, chosen.factories(), fit)
        return lambda some: list(planner.results(some))

    done = 0
    for _, results in spread(parts, begin, jobs if len(parts) > 1 else 1):
        done += len(results)
        progress("planning nodes", done, len(names))
        yield from results
