"""The kubeconfig as kubectl reads it, with kubectl itself as the judge where it is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from qoslet.errors import BadInput, CannotDo
from qoslet.host.cluster.client_library import ClusterAccess, is_installed, open_session
from qoslet.host.cluster.kubeconfig import read_kubeconfig
from tests.host.cluster.fake_api import FakeApi, fake_api

KUBECTL = shutil.which("kubectl")
needs_client = pytest.mark.skipif(
    not is_installed(), reason="the Kubernetes client is not installed: make test installs it"
)

_FIRST = """
current-context: ""
clusters: [{name: c, cluster: {server: "https://one", certificate-authority: ca.pem}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
"""
_SECOND = """
apiVersion: v1
kind: Config
current-context: x
clusters:
- {name: c, cluster: {server: "https://two"}}
- {name: d, cluster: {server: "https://three", tls-server-name: own, proxy-url: "http://p:1"}}
users:
- name: u
  user: {client-certificate: user.pem, client-key: ../key.pem, client-key-data: ""}
- name: plugin
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: ./bin/login, args: [a],
           interactiveMode: Never}
contexts:
- {name: x, context: {cluster: d, user: u}}
- {name: z, context: {cluster: d, user: plugin, namespace: shop}}
"""
_THIRD = "current-context: z\n"

SCENES: dict[str, tuple[dict[str, str], str]] = {
    "one file": ({"a/one": _SECOND}, ""),
    "the first current context, and the first entry of a name": (
        {"a/one": _FIRST, "b/two": _SECOND, "c/three": _THIRD},
        "",
    ),
    "the last file first": ({"c/three": _THIRD, "b/two": _SECOND, "a/one": _FIRST}, ""),
    "a context by name": ({"b/two": _SECOND, "a/one": _FIRST}, "z"),
    "a file that is empty": ({"a/none": "", "b/two": _SECOND}, ""),
    "the same file twice": ({"b/two": _SECOND}, "z"),
}


def written(folder: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return [str(folder / name) for name in files]


def chosen(document: Any) -> dict[str, Any]:
    """Context, cluster and user of a kubeconfig of one context."""
    (context,), (cluster,) = document["contexts"], document["clusters"]
    users = document.get("users") or [{}]
    found = {
        "name": context["name"],
        **{field: context["context"].get(field) for field in ("cluster", "user")},
        "server": cluster["cluster"],
        "credentials": users[0].get("user") or {},
    }
    plugin = found["credentials"].get("exec") or {}
    for field in ("env", "provideClusterInfo"):
        plugin.pop(field, None)
    return found


@pytest.mark.parametrize("scene", SCENES)
def test_files_are_merged_as_kubectl_merges_them(
    scene: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, context = SCENES[scene]
    paths = written(tmp_path, files)
    listed = ["", str(tmp_path / "absent"), *paths, paths[0]]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(listed))
    found = _by_name(chosen(read_kubeconfig("", context).document))
    if KUBECTL is None:
        pytest.skip("kubectl is not installed")
    words = [KUBECTL, "config", "view", "--raw", "--minify", "-o", "json"]
    words += [f"--context={context}"] if context else []
    done = subprocess.run(words, capture_output=True, check=True, timeout=30)
    assert found == _by_name(chosen(json.loads(done.stdout)))


def _by_name(found: dict[str, Any]) -> dict[str, Any]:
    """The same with the last parts of paths, which kubectl shows as they are written."""
    for entry in (found["server"], found["credentials"], found["credentials"].get("exec") or {}):
        for field in ("certificate-authority", "client-certificate", "client-key", "command"):
            if field in entry:
                entry[field] = os.path.basename(entry[field])
    return found


def test_the_first_file_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = written(tmp_path, {"a/one": _FIRST, "b/two": _SECOND, "c/three": _THIRD})
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(paths))
    found = chosen(read_kubeconfig("", "").document)
    assert found["name"] == "x", "a later current context is not the current one"
    assert found["server"] == {
        "server": "https://one",
        "certificate-authority": f"{tmp_path}/a/ca.pem",
    }
    assert found["credentials"] == {
        "client-certificate": f"{tmp_path}/b/user.pem",
        "client-key": f"{tmp_path}/b/../key.pem",
    }
    # a path with a colon is one path
    odd = written(tmp_path, {"a/b:c": _SECOND})[0]
    assert chosen(read_kubeconfig(odd, "z").document)["credentials"]["exec"]["command"] == (
        f"{tmp_path}/a/./bin/login"
    )


@pytest.mark.parametrize(
    ("files", "context", "said"),
    [
        ({}, "", "no kubeconfig was found"),
        ({"a/one": _FIRST}, "", "no current context"),
        ({"a/one": _FIRST}, "xx", "has no context xx"),
        ({"a/one": _FIRST}, "x", "has no user u"),
        ({"a/one": "contexts: [{name: x, context: {user: u}}]"}, "x", "has no cluster"),
        ({"a/one": "contexts: [x]"}, "x", "must be a list of objects"),
        ({"a/one": "contexts: 7"}, "x", "must be a list of objects"),
        ({"a/one": "- a"}, "x", "must be an object"),
        ({"a/one": "a: ["}, "x", "YAML"),
        ({"a/one": _SECOND.replace("./bin/login", "[]")}, "z", "exec.command"),
    ],
)
def test_faults_are_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    context: str,
    said: str,
) -> None:
    paths = written(tmp_path, files) or [str(tmp_path / "absent")]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(paths))
    with pytest.raises(BadInput) as found:
        read_kubeconfig("", context)
    assert said in str(found.value)
    assert str(tmp_path) in str(found.value)


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        read_kubeconfig(str(tmp_path / "absent"), "")


def test_a_kubeconfig_goes_before_the_account_of_a_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("first")
    access = ClusterAccess(account=str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    assert access.in_cluster
    (tmp_path / "kubeconfig").write_text(_FIRST)
    assert not access.in_cluster, "kubectl takes it, too"


def asked(api: FakeApi, path: Path) -> list[tuple[str, str]]:
    """The headers of a request with a kubeconfig."""
    api.pages["/version"] = b"{}"
    session = open_session(ClusterAccess(str(path)))
    try:
        response = session.get("/version", {}, silence_seconds=5)
        b"".join(response.chunks())
        assert response.status == 200
    finally:
        session.close()
    return api.headers[-1]


@needs_client
def test_a_user_that_acts_as_another(tmp_path: Path) -> None:
    with fake_api() as api:
        user = {"as": "reader", "as-uid": "7", "as-groups": ["a", "b"]}
        path = api.kubeconfig(tmp_path, user={**user, "as-user-extra": {"Scope/x": ["1", "2"]}})
        found = [one for one in asked(api, path) if one[0].startswith("Impersonate-")]
    assert found == [
        ("Impersonate-User", "reader"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-Scope%2Fx", "1"),
        ("Impersonate-Extra-Scope%2Fx", "2"),
    ]


def plugin(folder: Path, script: str) -> dict[str, Any]:
    """A user whose credentials are what a script prints."""
    (folder / "login").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "login").chmod(0o755)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./login",
            "interactiveMode": "Never",
            "installHint": "get it\nthere",
        }
    }


@needs_client
@pytest.mark.skipif(find_spec("socks") is not None, reason="PySocks is installed")
def test_a_socks_proxy_says_what_it_needs(tmp_path: Path) -> None:
    with fake_api() as api:
        path = api.kubeconfig(tmp_path)
    address = '"proxy-url": "socks5://127.0.0.1:9", "server"'
    path.write_text(json.dumps(yaml.safe_load(path.read_text())).replace('"server"', address))
    with pytest.raises(CannotDo, match="needs PySocks") as found:
        open_session(ClusterAccess(str(path)))
    assert found.value.where == "kubeconfig: proxy-url: socks5://127.0.0.1:9"


@needs_client
def test_a_credential_plugin(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    head = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":'
    with fake_api() as api:
        api.token = "fresh"
        user = plugin(tmp_path, f'echo \'{head}{{"token":"fresh"}}}}\'')
        asked(api, api.kubeconfig(tmp_path, user=user))
        for script, said in {
            "echo not logged in >&2; exit 3": "not logged in",
            "echo nonsense": "decode",
            f"echo '{head}{{}}}}'": "missing token",
        }.items():
            path = api.kubeconfig(tmp_path, user=plugin(tmp_path, script))
            with pytest.raises(CannotDo) as found:
                open_session(ClusterAccess(str(path)))
            assert said in found.value.message
            assert found.value.hint == "get it there"
        (tmp_path / "login").unlink()
        with pytest.raises(CannotDo, match="No such file"):
            open_session(ClusterAccess(str(path)))
    assert capfd.readouterr() == ("", ""), "the library prints nothing"
