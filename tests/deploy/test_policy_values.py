"""The policies that the chart takes are those that an agent takes."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml

from qoslet.core.guest.policy import ENDS, GUEST_MODES, NAMEABLE
from qoslet.core.guest.policy_document import policy_of
from qoslet.core.versions.kubernetes import MEMORY_QOS_VARIANTS
from qoslet.errors import BadInput
from tests.deploy.objects import CHART, chart, rendered

POLICY = ("ConfigMap", "qoslet-policy")


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"metadata": {"name": "shop"}, "namespaces": ["shop"]},
        *({"mode": one} for one in (*GUEST_MODES, "observe")),
        *({"files": [one]} for one in (*NAMEABLE, "memory.max")),
        *({"evict": one} for one in (*ENDS, True)),
        *({"memoryQos": one} for one in (*MEMORY_QOS_VARIANTS, 1.22, 1.27, 1.36, 1.37, 1.35, "on")),
        *({"memoryThrottlingFactor": one} for one in (0.9, 1, 0, 1.1, "0.9")),
        *({"evictCriticalPods": one} for one in ([], ["a/b"], ["b"], "a/b")),
        *({"namespaces": one} for one in ([], ["a"], "a")),
        *({"nodeCondition": one} for one in (True, "true")),
        {"evct": "pod"},
    ],
    ids=str,
)
def test_the_chart_takes_the_policies_that_an_agent_takes(policy: dict[str, Any]) -> None:
    """So that helm refuses a misspelt one, and no agent of the cluster has to."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    by_helm = jsonschema.Draft7Validator(schema).is_valid({"policy": policy})
    document = yaml.safe_load(chart(policy=policy)[POLICY]["data"]["policy.yaml"])
    try:
        policy_of(document, "policy.yaml")
    except BadInput:
        assert not by_helm
    else:
        assert by_helm


@pytest.mark.parametrize("policy", [None, {}])
def test_a_policy_whose_values_were_removed_is_one(policy: dict[str, Any] | None) -> None:
    """As by --set policy=null, or by policy.mode=null, which leaves an empty map."""
    values = {**yaml.safe_load((CHART / "values.yaml").read_text()), "policy": policy}
    text = rendered(CHART / "templates" / "policy.yaml", values)
    document = yaml.safe_load(yaml.safe_load(text)["data"]["policy.yaml"])
    assert policy_of(document, "policy.yaml").mode == "watch"


def test_the_chart_knows_every_field_of_a_policy() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    with pytest.raises(BadInput) as caught:
        policy_of({}, "policy.yaml")
    fields = str(caught.value.hint).removeprefix("fields: ").split(", ")
    assert [*schema["properties"]["policy"]["properties"]] == fields[2:]
