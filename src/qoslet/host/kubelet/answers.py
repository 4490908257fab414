"""What a kubelet answers: the configuration in force, its pods, its release; and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from qoslet.core.api.schema import DECODE_ERRORS, shown
from qoslet.core.node.running_kubelet.release import release_of_metrics
from qoslet.host.kubelet.client import Credentials, KubeletPort, NoAnswer, ask_kubelet

Page = Literal["/configz", "/pods", "/metrics"]

RIGHTS: Mapping[str, str] = {
    "/configz": "nodes/configz",
    "/pods": "nodes/pods",
    "/metrics": "nodes/metrics",
}
"""The right (verb get) that a page of the secure port takes.

Source: pkg/kubelet/server/auth.go; nodes/configz and nodes/pods since 1.33 (KEP-2862), before it is
nodes/proxy, which also runs commands in containers."""


class Unavailable(Struct, frozen=True):
    """A page that was not to be had: from ``where``, why, and what helps. ``is_refused``: the kubelet does not
    give it to this user."""

    page: Page
    where: str
    message: str
    hint: str = ""
    is_refused: bool = False


class KubeletAnswer(Struct):
    """``configz`` is the decoded KubeletConfiguration, ``pods`` a PodList as JSON, ``release`` as
    the kubelet writes it; each with the address that it is from in ``places``."""

    configz: dict[str, Any] | None = None
    pods: bytes | None = None
    release: str | None = None
    places: dict[str, str] = msgspec.field(default_factory=dict)
    unavailable: list[Unavailable] = msgspec.field(default_factory=list)

    def has(self, page: Page) -> bool:
        """Whether the page was answered."""
        return page in self.places

    def why_not(self, page: Page) -> Unavailable | None:
        """Why a page is not there: of the last of the ports that were asked, and the one before if that refused it.
        A port that does not answer is not asked for more pages."""
        rows = [one for one in self.unavailable if one.page == page] or self.unavailable[-1:]
        if not rows:
            return None
        *before, last = rows
        others = dict.fromkeys(one for one in before if one.is_refused and one != last)
        told = "".join(f"; {one.where}: {one.message}" for one in others)
        return replace(last, message=last.message + told)

    def refuses(self, page: Page) -> bool:
        """Whether the kubelet answers, but does not give a page to this user."""
        why = self.why_not(page)
        return why is not None and why.is_refused


class _Configz(Struct):
    kubeletconfig: dict[str, Any]


class _PodList(Struct):
    kind: Literal["PodList", "List"]


def take(answers: KubeletAnswer, port: KubeletPort, page: Page, credentials: Credentials) -> bool:
    """Ask for a page that is not there yet; whether the port answered at all."""
    if answers.has(page):
        return True
    where = f"{port}{page}"
    try:
        answer = ask_kubelet(port, page, credentials)
    except NoAnswer as error:
        answers.unavailable.append(
            Unavailable(page, error.where or where, error.message, error.hint)
        )
        return False
    if answer.status != 200:
        answers.unavailable.append(_refused(page, where, answer.status, credentials))
        return True
    try:
        _keep(answers, page, answer.body)
    except (*DECODE_ERRORS, ValueError) as error:
        message = f"answers something else: {shown(str(error), 120)}"
        answers.unavailable.append(Unavailable(page, where, message))
    else:
        answers.places[page] = where
    return True


def _keep(answers: KubeletAnswer, page: Page, body: bytes) -> None:
    """Raise ValueError and what decoding raises for what is no such page."""
    if page == "/configz":
        answers.configz = msgspec.json.decode(body, type=_Configz).kubeletconfig
    elif page == "/pods":
        msgspec.json.decode(body, type=_PodList)
        answers.pods = body
    else:
        answers.release = release_of_metrics(body)
        if answers.release is None:
            raise ValueError("no kubernetes_build_info")


def _refused(page: Page, where: str, status: int, credentials: Credentials) -> Unavailable:
    right = RIGHTS[page]
    since = (
        ""
        if page == "/metrics"
        else " (before 1.33 nodes/proxy, which also allows running commands)"
    )
    known = bool(credentials.token or credentials.certificate)
    if status == 401:
        message = "takes no anonymous questions"
        if known:
            message = "the credentials are not valid"
        if credentials.certificate:
            message += " or have expired"
        if credentials.token:
            # a kubelet answers 401, too, where its webhook cannot ask
            message += ", or the kubelet does not reach the API server, which checks tokens"
        hint = "give --kubelet-token or --kubelet-cert of a user"
        return Unavailable(
            page, where, message, f"{hint} with the right to get {right}{since}", True
        )
    if status == 403:
        who = "this user" if known else "system:anonymous"
        message = f"{who} may not get {right}"
        return Unavailable(page, where, message, f"grant get on {right}{since}", True)
    return Unavailable(page, where, f"answers {status}")
