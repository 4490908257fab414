"""Sessions by the Kubernetes project's own Python client: authentication and TLS are its.

Its watch is not used: it ends on 410 and on bookmarks of versions, reads without a bound, and builds
objects of every field. Nor is its merge of kubeconfigs, which takes the last current context.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from qoslet.core.api.schema import shown
from qoslet.errors import BadInput, CannotDo
from qoslet.host.cluster.kubeconfig import (
    LIST_CONTEXTS,
    Kubeconfig,
    kubeconfig_files,
    read_kubeconfig,
)
from qoslet.host.cluster.network_faults import no_response

HINT = "pip install 'qoslet[cluster]'"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_CONNECT_SECONDS = 5.0
_CHUNK = 1 << 16


class ClusterAccess(Struct, frozen=True):
    """Which cluster, and as whom. ``kubeconfig`` and ``context`` as kubectl's options; both empty: as
    kubectl, the files that KUBECONFIG names or the user's own, and without any the service account of
    the pod that this runs in. ``account`` is the directory of the account."""

    kubeconfig: str = ""
    context: str = ""
    account: str = ACCOUNT

    @property
    def in_cluster(self) -> bool:
        """Whether this runs in a pod with a service account that is to be used."""
        if self.kubeconfig or self.context or not os.environ.get("KUBERNETES_SERVICE_HOST"):
            return False
        has_kubeconfig = any(map(os.path.exists, kubeconfig_files()))
        return not has_kubeconfig and os.path.isfile(f"{self.account}/token")

    @property
    def namespace(self) -> str:
        """That of the service account; ``qoslet`` where there is none."""
        try:
            with open(f"{self.account}/namespace", encoding="utf-8") as file:
                return file.read(253).strip() or "qoslet"
        except (OSError, UnicodeError):
            return "qoslet"


def is_installed() -> bool:
    """Whether the client is there."""
    from importlib.util import find_spec

    return find_spec("kubernetes") is not None


def open_session(access: ClusterAccess) -> LibrarySession:
    """A session with the credentials as their files hold them now. Raises CannotDo, BadInput."""
    try:
        config = import_module("kubernetes.config")
        client = import_module("kubernetes.client")
    except ImportError:
        raise CannotDo(
            "needs the Python client of Kubernetes", where="cluster", hint=HINT
        ) from None
    configuration = client.Configuration()
    in_cluster, chosen = access.in_cluster, Kubeconfig({})
    where = "service account" if in_cluster else "kubeconfig"
    if not in_cluster:
        chosen = read_kubeconfig(access.kubeconfig, access.context)
    try:
        with _logged() as faults:
            _load(access, chosen, configuration)
        _check_proxy(str(configuration.proxy or ""))
        configuration.keep_alive = True
        if not configuration.verify_ssl:
            # whoever wrote the kubeconfig knows, and kubectl does not say it either
            urllib3 = import_module("urllib3")
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        made = client.ApiClient(configuration)
    except config.ConfigException as error:
        raise BadInput(shown(str(error), 200), where=where, hint=LIST_CONTEXTS) from None
    except CannotDo:
        raise
    except Exception as error:  # noqa: BLE001 - a library that reads a user's files raises what it likes
        message = f"cannot be used: {shown(str(error) or type(error).__name__, 200)}"
        raise BadInput(message, where=where) from None
    if faults:
        # without what its plugin gives, the user would be nobody
        raise CannotDo(shown(faults[-1], 300), where=where, hint=chosen.install_hint)
    return LibrarySession(made, configuration, chosen.headers)


def _check_proxy(proxy: str) -> None:
    """Raise CannotDo for a proxy that the library cannot use as it is installed."""
    from importlib.util import find_spec

    if proxy.startswith("socks") and find_spec("socks") is None:
        where = f"kubeconfig: proxy-url: {shown(proxy, 200)}"
        hint = "pip install pysocks, in the environment of qoslet"
        raise CannotDo("a SOCKS proxy needs PySocks", where=where, hint=hint)


def _load(access: ClusterAccess, chosen: Kubeconfig, configuration: Any) -> None:
    """Have the library read credentials: those of the service account where no context is chosen."""
    if not chosen.document:
        loader = import_module("kubernetes.config.incluster_config").InClusterConfigLoader
        files = (f"{access.account}/token", f"{access.account}/ca.crt")
        loader(*files).load_and_set(configuration)
        return
    import_module("kubernetes.config").load_kube_config_from_dict(
        chosen.document, client_configuration=configuration, persist_config=False
    )


@contextmanager
def _logged() -> Iterator[list[str]]:
    """What the library logs meanwhile, such as the failure of a credential plugin: it raises nothing
    then, and would print it."""
    lines = list[str]()

    class Collector(logging.Handler):
        """Takes the place of the standard error."""

        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    collector, root = Collector(logging.ERROR), logging.getLogger()
    root.addHandler(collector)
    try:
        yield lines
    finally:
        root.removeHandler(collector)


class LibraryResponse:
    """An answer of urllib3."""

    def __init__(self, response: Any, server: str) -> None:
        self._response = response
        self._server = server

    @property
    def status(self) -> int:
        """The code of HTTP."""
        return int(self._response.status)

    @property
    def retry_seconds(self) -> float:
        """What ``Retry-After`` asks for, in seconds; 0 for a date, which no API server sends."""
        text = str(self._response.headers.get("Retry-After", ""))
        return float(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0.0

    @property
    def date(self) -> float | None:
        """The server's clock, from ``Date``."""
        from email.utils import parsedate_to_datetime

        try:
            return parsedate_to_datetime(str(self._response.headers.get("Date", ""))).timestamp()
        except (ValueError, OverflowError):
            return None

    def chunks(self) -> Iterator[bytes]:
        """The body as it arrives. Raises NoResponse."""
        while True:
            try:
                chunk = self._response.read1(_CHUNK)
            except Exception as error:  # noqa: BLE001 - urllib3's, ssl's and the socket's
                raise no_response(error, self._server) from None
            if not chunk:
                return
            yield bytes(chunk)

    def abort(self) -> None:
        """End ``chunks`` from another thread."""
        try:
            self._response.shutdown()
        except Exception:  # noqa: BLE001 - it ended by itself meanwhile
            pass

    def close(self) -> None:
        """Close the connection: a watch that is left cannot be used again."""
        self._response.close()


class LibrarySession:
    """A session of the library's ``ApiClient``; ``headers`` go with each request."""

    def __init__(
        self, client: Any, configuration: Any, headers: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._headers = headers

    @property
    def server(self) -> str:
        """The address of the API server."""
        return str(self._configuration.host)

    def reach(self) -> None:
        """Connect once, where no proxy stands between. Raises NoResponse."""
        if self._configuration.proxy:
            return
        parts = urlsplit(self.server)
        port = parts.port or (80 if parts.scheme == "http" else 443)
        try:
            socket.create_connection((parts.hostname or "", port), _CONNECT_SECONDS).close()
        except (OSError, ValueError) as error:
            raise no_response(error, self.server) from None

    def get(
        self, path: str, query: Mapping[str, str], *, silence_seconds: float, accept: str = ""
    ) -> LibraryResponse:
        """GET ``path``. Raises NoResponse."""
        headers = {"Accept": accept or "application/json"}
        url = path + (f"?{urlencode(query)}" if query else "")
        return self._request("GET", url, headers, None, silence_seconds)

    def send(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        silence_seconds: float,
        content_type: str = "application/json",
    ) -> LibraryResponse:
        """Send JSON. Raises NoResponse, whether the server has taken it or not."""
        headers = {"Accept": "application/json", "Content-Type": content_type}
        return self._request(method, path, headers, body, silence_seconds)

    def _request(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None,
        silence_seconds: float,
    ) -> LibraryResponse:
        """An answer, whose body is still to be read. Raises NoResponse."""
        from qoslet.version import VERSION

        headers["User-Agent"] = f"qoslet/{VERSION}"
        try:
            with _logged():
                # one that cannot be renewed is sent as it is, and refused once it is too old
                self._client.update_params_for_auth(
                    headers, [], ["BearerToken"], path, method, None
                )
            # a file of a token may end with a newline
            sent = [(name, str(value).strip()) for name, value in headers.items()]
            response = self._client.rest_client.pool_manager.request(
                method,
                f"{self.server}{path}",
                headers=import_module("urllib3").HTTPHeaderDict([*sent, *self._headers]),
                body=body,
                preload_content=False,
                retries=False,
                redirect=False,
                timeout=_timeout(silence_seconds),
            )
        except Exception as error:  # noqa: BLE001 - urllib3's, ssl's, and files that are read again
            raise no_response(error, self.server) from None
        return LibraryResponse(response, self.server)

    def close(self) -> None:
        """Close its connections, and remove the files that the library wrote of what a kubeconfig
        embeds: this program may end without what the library has registered for its end."""
        self._client.close()
        module = import_module("kubernetes.config.kube_config")
        remove = getattr(module, "_cleanup_temp_files", None)
        if remove is not None:
            remove()


def _timeout(silence_seconds: float) -> Any:
    return import_module("urllib3").Timeout(connect=_CONNECT_SECONDS, read=silence_seconds)
