"""What a runtime is told of a container's seccomp profile."""

import pytest
from msgspec.structs import replace

from qoslet.core.workload.container_spec import PodMessages, SeccompProfiles
from qoslet.core.workload.image_spec import read_images
from qoslet.host.cri import requests
from qoslet.host.cri.pb import cri_pb2 as pb
from tests.core.workload.test_process_spec import document_of, pod_of

KINDS = pb.SecurityProfile


@pytest.mark.parametrize(
    ("profile", "by_default", "told"),
    [
        ({"type": "RuntimeDefault"}, False, (KINDS.RuntimeDefault, "")),
        ({"type": "Unconfined"}, True, (KINDS.Unconfined, "")),
        (None, False, (KINDS.Unconfined, "")),
        (None, True, (KINDS.RuntimeDefault, "")),
        (
            {"type": "Localhost", "localhostProfile": "a/p.json"},
            False,
            (KINDS.Localhost, "/root/seccomp/a/p.json"),
        ),
    ],
)
@pytest.mark.parametrize("of_pod", [True, False])
def test_the_profile_is_in_the_message(
    profile: dict[str, str] | None, by_default: bool, told: tuple[int, str], of_pod: bool
) -> None:
    context = {} if profile is None else {"securityContext": {"seccompProfile": profile}}
    document = document_of({} if of_pod else context, **(context if of_pod else {}))
    spec = replace(read_images(pod_of(document), document), messages=PodMessages("/p", {}))
    profiles = SeccompProfiles(root="/root/seccomp", by_default=by_default)
    made = requests.container_config(spec, spec.launches[0], "i", "/r", 0, False, profiles)
    seccomp = made.linux.security_context.seccomp
    assert (seccomp.profile_type, seccomp.localhost_ref) == told
