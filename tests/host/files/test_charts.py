"""What charts and kustomizations print, as it is, and what is not rendered yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from qoslet.core.api.manifest import Loaded, Options
from qoslet.errors import BadInputs
from qoslet.host.files.manifests import load, load_text
from tests.paths import REPO

CHARTS = REPO / "tests/data/charts"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: c}]}\n"

WANTED = {
    "argo-cd.yaml": (
        ["argocd-application-controller", "argocd-server", "canary", "argocd-redis-secret-init"],
        ["Application", "ApplicationSet", "AppProject"],
    ),
    "cert-manager.yaml": (
        ["cert-manager", "cert-manager-startupapicheck"],
        ["ClusterIssuer", "Certificate", "CertificateRequest", "Challenge"],
    ),
    "ingress-nginx.yaml": (
        ["ingress-nginx-controller", "ingress-nginx-admission-create"],
        ["ServiceMonitor", "ScaledObject"],
    ),
    "istio.yaml": (
        ["reviews-v1", "hello", "clones"],
        ["VirtualService", "Gateway", "TLSRoute", "Telemetry"],
    ),
    "kube-prometheus.yaml": (
        ["grafana", "node-exporter"],
        ["Alertmanager", "PrometheusRule", "ServiceMonitor", "PodMonitor"],
    ),
}


@pytest.mark.parametrize("name", sorted(path.name for path in CHARTS.iterdir()))
def test_what_a_chart_prints_is_read_as_it_is(name: str) -> None:
    loaded = load([str(CHARTS / name)], Options())
    pods, kinds = WANTED[name]
    assert [each.name for each in loaded.pods] == pods
    assert {row.severity for row in loaded.problems} == {"info"}
    custom = [row.message for row in loaded.problems if "custom resource" in row.message]
    assert [message.partition(" (")[0] for message in custom] == kinds
    unread = [
        row.message for row in loaded.problems if "does not read its containers" in row.message
    ]
    expected = ["Prometheus"] if name == "kube-prometheus.yaml" else []
    assert [message.partition(" (")[0] for message in unread] == expected


def test_all_of_them_together_are_read_with_one_row_a_kind() -> None:
    loaded = load([str(CHARTS)], Options())
    monitors = [row.message for row in loaded.problems if "ServiceMonitor" in row.message]
    assert [message.partition(")")[0] for message in monitors] == [
        "ServiceMonitor (monitoring.coreos.com, 3 of them"
    ]


def refused(*paths: Path | str, recursive: bool = False) -> list[str]:
    with pytest.raises(BadInputs) as found:
        load([str(path) for path in paths], Options(), recursive=recursive)
    return [str(fault) for fault in found.value.faults]


TEMPLATES = {
    "metadata": "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}\n",
    "condition": "{{- if .Values.on }}\napiVersion: v1\nkind: Pod\n{{- end }}\n",
    "include": 'kind: Pod\nmetadata:\n  labels:\n    {{- include "x.labels" . | nindent 4 }}\n',
    "alone": '{{ include "common.deployment" . }}\n',
    "comment": "{{/* helpers */}}\nkind: Pod\n",
    "mapping": "apiVersion: v1\nkind: Pod\nspec:\n  resources: {{ .Values.resources }}\n",
    "list": "args:\n- {{ .Values.a }}\n- b\n",
    "jinja": "kind: Pod\nmetadata:\n  name: {{ name }}\n",
    "quoted": 'kind: Pod\nmetadata:\n  name: "{{ include "web.name" . }}"\n',
    "inside": "kind: Pod\nmetadata:\n  name: a-{{ .Values.name }}: b\n",
    "json": '{"kind": "Pod", "metadata": {"name": {{ .Values.name | quote }}}}\n',
    "second": f"{POD}---\nkind: Pod\nmetadata:\n  name: {{{{ .Release.Name }}}}\n",
}


@pytest.mark.parametrize("text", TEMPLATES.values(), ids=TEMPLATES.keys())
@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_a_template_says_so_once(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / "web/templates" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (fault,) = refused(path)
    assert fault.startswith(f"{path}: is a template with {{{{ }}}} to fill in")
    assert f"(render it first: helm template {tmp_path}/web | qoslet plan -f -)" in fault


def test_a_template_in_quotes_says_so() -> None:
    text = POD.replace("NAME", "'{{ .Release.Name }}-web'")
    with pytest.raises(BadInputs) as found:
        load_text(text, Options())
    assert "render it first: helm template CHART" in str(found.value)


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: [\n",
        "a: 1\na: '{{ $labels.x }} is down'\n",
        "summary: '{{ $value }}'\n\tkind: Pod\n",
    ],
)
def test_other_broken_text_is_no_template(text: str) -> None:
    with pytest.raises(BadInputs) as found:
        load_text(text, Options())
    assert "render it first" not in str(found.value)


def test_braces_in_what_is_not_read_are_no_template() -> None:
    text = POD.replace("NAME", "web") + "---\nkind: ConfigMap\napiVersion: v1\ndata:\n  a: |\n"
    text += "    {{ range .Alerts }}\n    {{ end }}\n"
    assert [each.name for each in load_text(text, Options()).pods] == ["web"]


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    (tmp_path / "web/templates").mkdir(parents=True)
    (tmp_path / "web/Chart.yaml").write_text("apiVersion: v2\nname: web\nversion: 0.1.0\n")
    (tmp_path / "web/values.yaml").write_text("replicaCount: 1\nresources: {}\n")
    (tmp_path / "web/values-prod.yaml").write_text("replicaCount: 3\n")
    (tmp_path / "web/templates/deployment.yaml").write_text(TEMPLATES["metadata"])
    return tmp_path / "web"


@pytest.mark.parametrize("recursive", [False, True])
def test_a_chart_is_one_fault(chart: Path, recursive: bool) -> None:
    hint = f"(render it first: helm template {chart} | qoslet plan -f -)"
    assert refused(chart, recursive=recursive) == [
        f"{chart}: is a Helm chart, not manifests {hint}"
    ]
    if recursive:
        assert refused(chart.parent, recursive=True) == refused(chart)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("Chart.yaml", "describes a Helm chart"),
        ("values.yaml", "has the values of a Helm chart"),
        ("values-prod.yaml", "has the values of a Helm chart"),
    ],
)
def test_a_part_of_a_chart_is_named(chart: Path, name: str, what: str) -> None:
    (fault,) = refused(chart / name)
    assert fault.startswith(f"{chart / name}: {what}, not a Kubernetes object")
    assert f"helm template {chart} |" in fault


def test_a_chart_on_standard_input_is_one_by_its_fields() -> None:
    with pytest.raises(BadInputs) as found:
        load_text("apiVersion: v2\nname: web\nversion: 0.1.0\n", Options(), name="stdin")
    assert "helm template CHART" in str(found.value)


KUSTOMIZATIONS = [
    "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [pod.yaml]\n",
    "resources:\n- pod.yaml\nnamePrefix: a-\n",
    "namespace: shop\npatches: [{path: p.yaml}]\n",
]


@pytest.mark.parametrize("text", KUSTOMIZATIONS)
@pytest.mark.parametrize("name", ["kustomization.yaml", "kustomization.yml"])
def test_a_kustomization_alone_says_how_to_render_it(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / name).write_text(text)
    wanted = f"(render it first: kubectl kustomize {tmp_path} | qoslet plan -f -)"
    for path in (tmp_path, tmp_path / name):
        (fault,) = refused(path)
        assert "no pod in the input" in fault
        assert fault.endswith(wanted)


@pytest.mark.parametrize("text", KUSTOMIZATIONS)
def test_a_kustomization_beside_pods_is_a_warning(tmp_path: Path, text: str) -> None:
    (tmp_path / "kustomization.yaml").write_text(text)
    (tmp_path / "pod.yaml").write_text(POD.replace("NAME", "web"))
    loaded = load([str(tmp_path)], Options())
    assert [each.name for each in loaded.pods] == ["web"]
    (row,) = loaded.problems
    assert (row.severity, "kustomization not applied" in row.message) == ("warning", True)
    assert f"kubectl kustomize {tmp_path} |" in row.hint


def test_other_documents_without_a_kind_are_what_they_were() -> None:
    for text in ("name: a\n", "resources: {}\nspec: {}\n", "groups: []\n"):
        with pytest.raises(BadInputs) as found:
            load_text(text, Options())
        assert str(found.value).startswith("text: kind: is missing")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b/x.yaml", "b/a/w.yaml", "a.yaml", "c.yml", ".git/h.yaml", "b/.h.yaml", "d.txt"):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(POD.replace("NAME", path.stem.strip(".")))
    (tmp_path / "else").mkdir()
    (tmp_path / "else/z.yaml").write_text(POD.replace("NAME", "z"))
    (tmp_path / "tree/link").symlink_to(tmp_path / "else")
    (tmp_path / "tree/loop").symlink_to(tmp_path / "tree")
    (tmp_path / "tree/file.yaml").symlink_to(tmp_path / "else/z.yaml")
    (tmp_path / "tree/dir.yaml").mkdir()
    return tmp_path / "tree"


def names(loaded: Loaded) -> list[str]:
    return [each.name for each in loaded.pods]


def test_directories_below_are_read_when_asked_for(tree: Path) -> None:
    """As kubectl -R walks: by name, through no link to a directory."""
    assert names(load([str(tree)], Options())) == ["a", "c", "z"]
    assert names(load([str(tree)], Options(), recursive=True)) == ["a", "w", "x", "c", "z"]
    assert names(load([str(tree / "a.yaml")], Options(), recursive=True)) == ["a"]


def test_a_fault_below_spoils_no_other_directory(tree: Path, chart: Path) -> None:
    chart.rename(tree / "b/web")
    (tree / "b/a/bad.yaml").write_text("kind: Pod\n")
    (tree / "file.yaml").unlink()
    first, second = refused(tree, recursive=True)
    assert first.startswith(f"{tree}/b/a/bad.yaml: apiVersion: is missing")
    assert second.startswith(f"{tree}/b/web: is a Helm chart")


def test_a_directory_of_directories_names_the_option(tree: Path) -> None:
    for name in ("a.yaml", "c.yml", "file.yaml"):
        (tree / name).unlink()
    (fault,) = refused(tree)
    assert "has manifests in its directories only: -R reads them" in fault
    assert names(load([str(tree)], Options(), recursive=True)) == ["w", "x"]
