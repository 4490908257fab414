"""The node that a kubelet of this machine runs, as the documents that ``plan`` takes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from qoslet.app.node.kubelet_runtime import (
    KubeletRuntime,
    completed,
    kubelet_runtime,
    pods_of_manifests,
    runtime_socket,
    sandboxed_pods,
    static_pod_names,
)
from qoslet.core.api.schema import shown
from qoslet.core.node.doctor.finding import DoctorFinding
from qoslet.core.node.documents.kubelet_documents import with_known_gates
from qoslet.core.node.documents.sources import KUBELET_API
from qoslet.core.node.running_kubelet.listed_pods import listed_pods, node_of, runtime_of
from qoslet.core.node.running_kubelet.release import oldest_release
from qoslet.core.node.running_kubelet.work import KubeletWork
from qoslet.core.versions.kubernetes import NEWEST
from qoslet.errors import BadInput, CannotDo
from qoslet.host.kubelet.answers import KubeletAnswer, Page, Unavailable, take
from qoslet.host.kubelet.client import Credentials as Credentials
from qoslet.host.kubelet.configuration import Configuration, configuration
from qoslet.host.kubelet.kubelet_release import KubeletRelease
from qoslet.host.kubelet.pod_states import has_ended, root_directory, was_assigned, was_resized
from qoslet.host.kubelet.ports import read_only_port, secure_port
from qoslet.host.kubelet.process_files import ProcessFiles
from qoslet.host.kubelet.processes import (
    KubeletProcess,
    age_seconds,
    has_exited,
    kubelet_processes,
    shares_cgroups,
    shares_namespace,
    working_seconds,
)


class KubeletOptions(Struct, frozen=True):
    """How to find a kubelet: its process where there are several, and how to ask it. ``root``
    stands in front of /proc."""

    pid: int | None = None
    credentials: Credentials = Credentials()
    root: str = ""


PAGES: tuple[Page, ...] = ("/configz", "/pods", "/metrics")
"""The pages that tell of a node, the slowest last."""
_KNOWN = KubeletRelease()

PODS = "kubelet pods"
RELEASE = "kubelet release"
"""The topics of the notes about pods, and about the kubelet's release."""

QOS_UPDATE_SECONDS = 75.0
"""A kubelet updates its QoS cgroups each minute. At its start it has no pods: the first update sets
cpu.shares to 2. Source: cm/qos_container_manager_linux.go periodicQOSCgroupUpdateInterval."""

READING_SECONDS = 600.0
"""How long a kubelet may take to read its static manifests: it admits one after the other, each after
10 s where it has no API server. Source: seen beside 1.36.2; kubelet.go HandlePodAdditions."""


class FoundNode(Struct, frozen=True):
    """The node of a kubelet that runs here."""

    pid: int
    name: str | None
    documents: tuple[tuple[str, Any], ...]
    """Node documents, each with the place that it is from; a later one overrides an earlier one."""
    pods: tuple[str, bytes] | None
    """A PodList as JSON with the place that it is from; None if the kubelet gives none."""
    notes: tuple[DoctorFinding, ...]
    """What was found, what is missing, and what helps."""
    work: KubeletWork = KubeletWork()
    folder: str = ""
    """Its directory in /proc."""
    root: str = ""
    """Its root directory, as it sees it."""
    is_refused: bool = False
    """Whether the kubelet does not give its pods to this user."""

    def note(self, topic: str) -> DoctorFinding:
        """The note about ``PODS`` or ``RELEASE``, which every kubelet has."""
        return next(row for row in self.notes if row.topic == topic)

    def texts(self) -> list[tuple[str, bytes]]:
        """The documents as JSON."""
        return [(where, msgspec.json.encode(document)) for where, document in self.documents]

    def lines(self) -> list[str]:
        """The notes as lines for people."""
        found = []
        for row in self.notes:
            lacks = "; ".join(filter(None, (row.cost, row.remedy))) if row.state != "ok" else ""
            found.append(f"{row.topic}: {row.value}{f' ({lacks})' if lacks else ''}")
        return found


def find_node(options: KubeletOptions, known: KubeletRelease = _KNOWN) -> FoundNode:
    """Read the node of the kubelet that runs here; ``known`` keeps its release between calls. Raises
    CannotDo if none runs or it ends meanwhile, BadInput if several run and none is chosen."""
    process = chosen_kubelet(options)
    read = configuration(process)
    answers = KubeletAnswer()
    if known.begin(process, answers):
        ask_pages(process, read, options, PAGES, answers)
        known.end(process, answers)
    else:
        ask_pages(process, read, options, PAGES[:2], answers)
    fields = kubelet_fields(read, answers)
    runtime = kubelet_runtime(process, fields)
    pods = None
    if answers.pods is not None:
        pods = answers.places["/pods"], completed(answers.pods, runtime)
    else:
        pods = pods_of_manifests(process, fields, runtime, node_name(read))
    listed = [] if pods is None else listed_pods(pods[1])
    name = node_of(listed)
    documents = _documents(process, read, answers, name, runtime, runtime_of(listed))
    notes = (
        _kubelet_note(process, answers, name),
        _configuration_note(process, read, answers),
        _pods_note(answers, pods),
        _release_note(answers),
        runtime.note,
    )
    named = {one.uid for one in listed}
    has_changed = bool(named and runtime.uids - named) or has_ended(listed)
    if pods is not None:
        has_changed = has_changed or was_resized(process, read.command, listed)
    age = age_seconds(process)
    works = working_seconds(process)
    is_new = works is not None and works < QOS_UPDATE_SECONDS
    if age is not None and not is_new and age < READING_SECONDS and pods is not None:
        manifests = static_pod_names(process, fields, name or node_name(read))
        is_new = not manifests <= {one.full_name for one in listed}
    ready, older = sandboxed_pods(runtime, listed, age)
    work = KubeletWork(
        running=runtime.uids,
        ready=ready,
        is_new=is_new,
        has_changed=has_changed,
        older=older,
        is_assigning=was_assigned(process, read.command),
    )
    root = root_directory(read.command)
    refused = answers.refuses("/pods")
    return FoundNode(process.pid, name, documents, pods, notes, work, process.folder, root, refused)


def runtime_endpoint(options: KubeletOptions) -> str:
    """The socket of the runtime of the kubelet that runs here (``unix://...``). Raises CannotDo,
    BadInput."""
    process = chosen_kubelet(options)
    fields = kubelet_fields(configuration(process), KubeletAnswer())
    endpoint, path = runtime_socket(process, fields)
    if not path:
        raise CannotDo("not a unix socket", where=f"containerRuntimeEndpoint: {endpoint}")
    return f"unix://{path}"


def kubelet_fields(read: Configuration, answers: KubeletAnswer) -> Mapping[str, Any]:
    """The configuration as far as it is known. The runtime's socket was a flag alone before 1.27."""
    if answers.configz is None:
        return read.fields
    named = {key: value for key, value in read.fields.items() if key == "containerRuntimeEndpoint"}
    return {**named, **answers.configz}


def kubelet_options(values: object) -> KubeletOptions:
    """The options among the attributes of ``values``, as the command line has them."""
    files = ("kubelet_ca", "kubelet_token", "kubelet_cert", "kubelet_key")
    authorities, token, certificate, key = (getattr(values, name, None) or "" for name in files)
    credentials = Credentials(authorities, token, certificate, key)
    return KubeletOptions(getattr(values, "kubelet_pid", None), credentials)


def chosen_kubelet(options: KubeletOptions) -> KubeletProcess:
    """The kubelet that is asked for, or the only one; of several the one in our mount namespace, else
    that with our cgroups. Raises CannotDo, BadInput where there are several, or none with our cgroups."""
    found, others = kubelet_processes(options.root, options.pid)
    if options.pid is not None:
        for process in found:
            if process.pid == options.pid:
                return process
        message = f"process {options.pid} is not a kubelet of root or of this user"
        raise BadInput(message, where="--kubelet-pid", hint=_listed(found))
    if not found:
        hint = "give pods with -f and the node with --node, or a kubelet of another name with --kubelet-pid"
        if others:
            message = f"process {others[0]} is called kubelet, but is another user's"
            raise CannotDo(message, hint=hint)
        beside, alone = _agents()
        if alone:
            hint = f"{hint}; pods of qoslet run: their manifests with -f, and --cgroup-root {alone}"
        raise CannotDo(f"no kubelet runs on this machine{beside}", hint=hint)
    near = [one for one in found if shares_namespace(one, "mnt") is not False]
    chosen = near or [one for one in found if shares_cgroups(one) is not False]
    if not chosen:
        message = f"the kubelet (process {found[0].pid}) has other cgroups than are mounted here"
        hint = f"run qoslet in its container; plan for it with --kubelet-pid {found[0].pid}"
        raise CannotDo(message, hint=hint)
    if len(chosen) > 1:
        message = f"{len(chosen)} kubelets run on this machine"
        raise BadInput(message, where="--kubelet-pid", hint=_listed(chosen))
    return chosen[0]


def _agents() -> tuple[str, str]:
    """That an agent is beside a kubelet all the same, where another process is one, and the roots of those
    that run pods themselves."""
    from qoslet.host.state.agents import agent_of, guest_roots, running_roots
    from qoslet.host.state.folder import STATE, folder_of

    beside = guest_roots(STATE)
    others = ", ".join(one for one in beside if agent_of(folder_of(one)) != os.getpid())
    said = f", though an agent of qoslet is beside the one of {others}" if others else ""
    return said, " or ".join(root for root in running_roots(STATE) if root not in beside)


def _listed(found: list[KubeletProcess]) -> str:
    return "kubelets: " + (", ".join(str(one.pid) for one in found[:8]) or "none")


def ask_pages(
    process: KubeletProcess,
    read: Configuration,
    options: KubeletOptions,
    pages: Sequence[Page] = PAGES,
    answers: KubeletAnswer | None = None,
) -> KubeletAnswer:
    """Ask the kubelet for pages that ``answers`` lacks: the read-only port first, since that takes no right."""
    answers = KubeletAnswer() if answers is None else answers
    if shares_namespace(process, "net") is False:
        message = "the kubelet is in another network namespace"
        hint = f"nsenter -t {process.pid} -n qoslet ..."
        answers.unavailable += [Unavailable(page, "", message, hint) for page in pages]
        return answers
    port = read_only_port(read.fields)
    if port is not None:
        # it has no /configz
        for page in pages:
            if page != "/configz" and not take(answers, port, page, Credentials()):
                break
    if not all(answers.has(page) for page in pages):
        _ask_secure(process, read, options, answers, pages)
    return answers


def _ask_secure(
    process: KubeletProcess,
    read: Configuration,
    options: KubeletOptions,
    answers: KubeletAnswer,
    pages: Sequence[Page],
) -> None:
    try:
        with ProcessFiles(process.folder) as files:
            name = node_name(read)
            trusted = bool(options.credentials.authorities)
            secure = secure_port(read.fields, read.command, files, name, pinned=not trusted)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        where = (error.filename if isinstance(error, OSError) else None) or process.folder
        message = f"the kubelet's certificate cannot be read: {reason}"
        hint = "run as root, or give --kubelet-ca"
        if isinstance(error, FileNotFoundError):
            hint = "a kubelet makes it as it starts: ask again, or give --kubelet-ca"
        if has_exited(process):
            where, message = "", f"the kubelet (process {process.pid}) has ended"
            hint = "ask again when it runs"
        answers.unavailable += [Unavailable(page, str(where), message, hint) for page in pages]
        return
    if secure is None:
        answers.unavailable.append(Unavailable("/configz", "", "the kubelet serves no port"))
        return
    for page in pages:
        if not take(answers, secure, page, options.credentials):
            return


def node_name(read: Configuration) -> str:
    """The name of the kubelet's node, unless a cloud provider gives it another."""
    import socket

    return read.command.path("hostname-override") or socket.gethostname().strip().lower()


def _documents(
    process: KubeletProcess,
    read: Configuration,
    answers: KubeletAnswer,
    name: str | None,
    runtime: KubeletRuntime,
    named: str | None,
) -> tuple[tuple[str, Any], ...]:
    """The configuration as /configz has it, or as flags and files make it, and a Node document of qoslet
    with the rest. ``named`` is the runtime by the pods' container IDs, for one that does not answer."""
    documents: list[tuple[str, Any]] = []
    if answers.configz is not None:
        documents.append((answers.places["/configz"], {"kubeletconfig": answers.configz}))
    elif read.effective is not None:
        sources = read.effective.sources()
        documents += [(one.where, with_known_gates(one.document)) for one in sources]
        if runtime.driver and _asks_runtime_for_driver(answers.release):
            head = {"apiVersion": KUBELET_API, "kind": "KubeletConfiguration"}
            documents.append((runtime.endpoint, {**head, "cgroupDriver": runtime.driver}))
    own: dict[str, Any] = {"apiVersion": "qoslet/v1", "kind": "Node"}
    if name is not None:
        own["metadata"] = {"name": name}
    own["kubernetes"] = _release(answers)
    if runtime.name or named:
        own["runtime"] = runtime.name or named
    documents.append((answers.places.get("/metrics", f"process {process.pid}"), own))
    return tuple(documents)


def _asks_runtime_for_driver(release: str | None) -> bool:
    """Whether a kubelet takes its driver from the runtime: gate KubeletCgroupDriverFromCRI, on since
    1.31."""
    minor = (release or f"1.{NEWEST}").split(".")[1].rstrip("+")
    return minor.isdigit() and int(minor) >= 31


def _release(answers: KubeletAnswer) -> str:
    """The kubelet's release; the newest if it is not known."""
    return answers.release or f"1.{NEWEST}"


def _kubelet_note(
    process: KubeletProcess, answers: KubeletAnswer, name: str | None
) -> DoctorFinding:
    said = [f"{process.name} (process {process.pid})", answers.release, name and f"node {name}"]
    return DoctorFinding("kubelet", "ok", ", ".join(filter(None, said)))


def _configuration_note(
    process: KubeletProcess, read: Configuration, answers: KubeletAnswer
) -> DoctorFinding:
    topic = "kubelet configuration"
    if answers.has("/configz"):
        return DoctorFinding(topic, "ok", f"from {answers.places['/configz']}")
    why = _why(answers.why_not("/configz"))
    if read.effective is None:
        fault = read.fault
        text = "" if fault is None else f"{fault.where}: {fault.message}"
        remedy = (fault.hint if fault is not None else "") or "give it with --node"
        return DoctorFinding(topic, "missing", shown(text, 300), why[0], remedy)
    files = ", ".join(read.files[:4]) + (" and others" if len(read.files) > 4 else "")
    value = "from the command line" + (f" and {files}" if files else "")
    if process.name == "k3s":
        return DoctorFinding(
            topic, "unknown", value, "what k3s itself sets is seen in /configz only", why[1]
        )
    if read.changed:
        cost = f"{read.changed} was written after the kubelet started: it may run with other values"
        return DoctorFinding(topic, "unknown", value, cost, why[1] or "restart the kubelet")
    return DoctorFinding(
        topic, "ok", value, f"not from /configz: {why[0]}" if why[0] else "", why[1]
    )


def _pods_note(answers: KubeletAnswer, pods: tuple[str, bytes] | None) -> DoctorFinding:
    message, hint = _why(answers.why_not("/pods"))
    if answers.has("/pods"):
        return DoctorFinding(PODS, "ok", f"from {answers.places['/pods']}")
    if pods is not None:
        value = f"from the static manifests in {pods[0]} and the container runtime"
        cost = f"not from /pods: {message}" if message else ""
        return DoctorFinding(PODS, "ok", value, cost, hint)
    value = message or "cannot be asked for"
    return DoctorFinding(PODS, "missing", value, "give them with -f", hint)


def _release_note(answers: KubeletAnswer) -> DoctorFinding:
    if answers.release is not None:
        return DoctorFinding(RELEASE, "ok", answers.release)
    oldest = oldest_release(answers.configz) if answers.configz is not None else None
    value = f"1.{oldest} or later" if oldest is not None else "not known"
    cost = f"rules of 1.{NEWEST} are used"
    return DoctorFinding(RELEASE, "unknown", value, cost, "give --kubernetes")


def _why(refusal: Unavailable | None) -> tuple[str, str]:
    """Why the kubelet did not give a page, and what helps."""
    if refusal is None:
        return "", ""
    return f"{refusal.where}: {refusal.message}" if refusal.where else refusal.message, refusal.hint
