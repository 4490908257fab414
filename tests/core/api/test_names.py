"""The names of documents against the expressions of Kubernetes that define them.

Source: k8s.io/apimachinery pkg/util/validation (dns1123LabelFmt, dns1123SubdomainFmt, qualifiedNameFmt).
"""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from qoslet.core.api.container_resources import is_label, is_short_name, is_subdomain
from qoslet.core.api.ids import CONTAINER_ID_MAX, UID_MAX, container_id_fault, uid_fault

LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
SHORT = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
ID = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
UID = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"

EDGES = ["", "-", ".", "a-", "-a", "a..b", "a.-b", "1", "A", "a_b", "é", "٣", "ª", "a\n", "ß"]
NAMES = (
    st.sampled_from(EDGES)
    | st.text("ab1-._A/é٣ \n", max_size=8)
    | st.builds(
        lambda text, times: text * times, st.sampled_from(["a", "a.", "a-b"]), st.integers(0, 300)
    )
)


@given(NAMES)
def test_names_are_what_kubernetes_says(name: str) -> None:
    assert is_label(name) == (len(name) <= 63 and bool(re.fullmatch(LABEL, name)))
    assert is_subdomain(name) == (len(name) <= 253 and bool(re.fullmatch(SUBDOMAIN, name)))
    assert is_short_name(name) == (len(name) <= 63 and bool(re.fullmatch(SHORT, name)))


@given(NAMES)
def test_identities_that_pass_can_name_a_cgroup(name: str) -> None:
    fits = bool(re.fullmatch(ID, name)) and ".." not in name and len(name) <= CONTAINER_ID_MAX
    assert (container_id_fault(name) is None) == fits
    if name:
        fits = bool(re.fullmatch(UID, name)) and ".." not in name and len(name) <= UID_MAX
        assert (uid_fault(name) is None) == fits
