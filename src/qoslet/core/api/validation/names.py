"""The syntax of names, as predicates.

Source: k8s.io/apimachinery pkg/util/validation/validation.go (IsQualifiedName, IsValidLabelValue,
IsValidPortName, IsRelaxedEnvVarName, IsConfigMapKey, IsHTTPHeaderName, IsCIdentifier).
"""

from __future__ import annotations

from qoslet.core.api.container_resources import is_short_name, is_subdomain

_LOWER = "abcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"
_WORD = _LOWER + _LOWER.upper() + _DIGITS

QUALIFIED_HINT = "use [DNS-name/]name with letters, digits, -, _ and ., at most 63 characters"
LABEL_VALUE_HINT = "use letters, digits, -, _ and ., at most 63 characters"
PORT_NAME_HINT = "use lowercase letters, digits and -, at most 15 characters and a letter"


def is_qualified(key: str) -> bool:
    """Whether ``key`` may be the key of a label."""
    domain, slash, name = key.partition("/")
    if not slash:
        return is_short_name(domain)
    return is_subdomain(domain) and is_short_name(name)


def is_label_value(value: str) -> bool:
    """Whether ``value`` may be the value of a label; empty is one."""
    return not value or is_short_name(value)


def is_port_name(name: str) -> bool:
    """Whether ``name`` may name a port: an IANA service name."""
    return (
        0 < len(name) <= 15
        and not name.strip(_LOWER + _DIGITS + "-")
        and bool(name.strip(_DIGITS + "-"))
        and "--" not in name
        and name[0] != "-"
        and name[-1] != "-"
    )


def is_env_name(name: str) -> bool:
    """Whether any release takes ``name`` as that of a variable: printable ASCII without ``=``."""
    return bool(name) and all(" " <= char <= "~" and char != "=" for char in name)


def is_config_key(key: str) -> bool:
    """Whether ``key`` may be a key of a ConfigMap or Secret."""
    plain = 0 < len(key) <= 253 and not key.strip(_WORD + "-_.")
    return plain and key != "." and not key.startswith("..")


def is_header_name(name: str) -> bool:
    """Whether ``name`` may be that of an HTTP header."""
    return bool(name) and not name.strip(_WORD + "-")


def is_local_path(path: str) -> bool:
    """Whether ``path`` is relative and stays below where it starts."""
    return not path.startswith("/") and ".." not in path.split("/")
