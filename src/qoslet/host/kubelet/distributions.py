"""Kubelets inside other programs: where k3s, MicroK8s and MicroShift keep what they start theirs with.

Source: k3s docs, "agent" options ``--kubelet-arg``, ``--config``, ``--data-dir``, and "Configuration file"; k3s rewrites its
own command line, since that may hold a token. MicroK8s docs, "Configuring services":
``args/kubelet``. MicroShift pkg/node/kubelet.go.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from qoslet.errors import BadInput
from qoslet.host.files.bounds import FOLLOWED
from qoslet.host.kubelet.process_files import ProcessFiles
from qoslet.host.kubelet.processes import KubeletProcess

_MICROSHIFT_CONFIG = "/var/lib/microshift/resources/kubelet/config/config.yaml"
_K3S_CONFIG = "/etc/rancher/k3s/config.yaml"
_K3S_RUNTIME = "unix:///run/k3s/containerd/containerd.sock"
_K3S_DOCKER = "unix:///run/k3s/cri-dockerd/cri-dockerd.sock"
_K3S_DATA = "/var/lib/rancher/k3s"
_SNAP = {
    "SNAP_DATA": "/var/snap/microk8s/current",
    "SNAP_COMMON": "/var/snap/microk8s/common",
    "SNAP": "/snap/microk8s/current",
}


def arguments_of(process: KubeletProcess, files: ProcessFiles) -> list[str]:
    """The command line of the kubelet in ``process``, as far as it can be seen."""
    if process.name == "k3s":
        return list(_k3s(process, files))
    if process.name == "MicroK8s":
        return list(_microk8s(process, files))
    if process.name == "MicroShift":
        return [f"--config={_MICROSHIFT_CONFIG}"]
    if process.name == "hyperkube":
        return list(process.arguments[1:])
    return list(process.arguments)


def _microk8s(process: KubeletProcess, files: ProcessFiles) -> Iterator[str]:
    """The lines of its file of arguments, a flag each."""
    flag = "--kubelet-args-file="
    given = (one.removeprefix(flag) for one in process.arguments if one.startswith(flag))
    path = next(given, f"{_SNAP['SNAP_DATA']}/args/kubelet")
    try:
        text = os.fsdecode(files.read(path))
    except OSError:
        return
    for line in text.splitlines():
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        for name, value in _SNAP.items():
            word = word.replace(f"${{{name}}}", value).replace(f"${name}/", f"{value}/")
        name, _, value = word.partition(" ")
        yield name if not value else f"{name}={value.strip()}"


def _k3s(process: KubeletProcess, files: ProcessFiles) -> Iterator[str]:
    """What it adds to the kubelet's command line; drop-ins, where this k3s has them, come first."""
    values = _k3s_values(files)
    data = str(values.get("data-dir") or _K3S_DATA)
    folder = f"{data}/agent/etc/kubelet.conf.d"
    try:
        next(files.walk(folder), None)
    except OSError:
        pass
    else:
        yield f"--config-dir={folder}"
    yield f"--tls-cert-file={data}/agent/serving-kubelet.crt"
    runtime = _K3S_DOCKER if values.get("docker") is True else _K3S_RUNTIME
    runtime = str(values.get("container-runtime-endpoint") or runtime)
    yield f"--container-runtime-endpoint={'' if '://' in runtime else 'unix://'}{runtime}"
    yield "--read-only-port=0"
    name = values.get("node-name")
    if isinstance(name, str):
        yield f"--hostname-override={name}"
    for word in _listed(values.get("kubelet-arg")):
        if isinstance(word, str):
            yield f"--{word.removeprefix('--')}"
    arguments = list(process.arguments)
    for at, word in enumerate(arguments):
        if word == "--kubelet-arg" and at + 1 < len(arguments):
            yield f"--{arguments[at + 1].removeprefix('--')}"
        elif word.startswith("--kubelet-arg="):
            yield f"--{word.removeprefix('--kubelet-arg=').removeprefix('--')}"


def _k3s_values(files: ProcessFiles) -> dict[str, Any]:
    """Its own configuration file with its drop-ins, by the order of their names; empty where there is
    none. A drop-in's value takes the place of an earlier one; a key with a ``+`` adds to a list."""
    paths = [_K3S_CONFIG]
    try:
        paths += [
            name for name in files.walk(f"{_K3S_CONFIG}.d") if name.endswith((".yaml", ".yml"))
        ]
    except OSError:
        pass
    values = dict[str, Any]()
    for path in paths:
        for key, value in _k3s_file(files, path).items():
            name = key.removesuffix("+")
            values[name] = [*_listed(values.get(name)), *_listed(value)] if name != key else value
    return values


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _k3s_file(files: ProcessFiles, path: str) -> dict[str, Any]:
    """One file of it; empty where it cannot be read."""
    from qoslet.host.files.manifests import text_documents

    try:
        data = files.read(path)
    except OSError:
        return {}
    for found in text_documents(data, path, FOLLOWED):
        if not isinstance(found, BadInput):
            value = msgspec.json.decode(found.data)
            return value if isinstance(value, dict) else {}
    return {}
