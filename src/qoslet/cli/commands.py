"""The commands of the program: where each one's module is, and one line about it.

Only names are here, so that help and a wrong command cost no import.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

    from qoslet.cli.parser import Parser

GROUPS = {
    "offline": "plan and explain, on any machine",
    "node": "change or inspect this machine",
    "agent": "run pods, or beside a kubelet, and ask the agent that does",
    "help": "help",
}
"""The packages of the commands, each with its heading, in the order of ``qoslet --help``."""

COMMANDS = {
    "plan": ("offline", "Show the cgroups that pods get on a node, and every value in them"),
    "explain": ("offline", "Explain a value, or why a file is not written"),
    "diff": ("offline", "Compare two plans: what an upgrade or a change means for the pods"),
    "fleet": (
        "offline",
        "Plan every node of a cluster, before and after a change",
    ),
    "lint": ("offline", "Find traps in manifests and kubelet configurations"),
    "convert": ("offline", "Convert OCI or CRI resources, or a pod, to cgroup files"),
    "metrics": ("offline", "List an agent's metrics; print a dashboard or alerts for them"),
    "replay": ("offline", "Show what a guard policy would have done on a recording"),
    "config": ("offline", "Show and check a node's configuration and where each value is set"),
    "doctor": ("node", "Show what this machine supports, what is missing and what to do"),
    "audit": ("node", "Compare this node's cgroups with the plan of its pods"),
    "bundle": ("node", "Pack this node into one file, without secrets"),
    "top": ("node", "Show what this node's cgroups use, beside requests and limits"),
    "record": ("node", "Record what this node's cgroups use, to look at it later"),
    "web": ("node", "Serve this node as a web page that only reads"),
    "apply": ("node", "Create and write the cgroups of pods once"),
    "release": ("node", "Undo apply or run: stop pods, restore values, remove cgroups"),
    "run": ("agent", "Run pods and keep their cgroups as planned"),
    "agent": ("agent", "Run beside a kubelet: audit, protect and guard its node"),
    "nri": ("agent", "Have the runtime set the agent's values as it creates containers"),
    "ps": ("agent", "List the agent's pods with status and reason"),
    "logs": ("agent", "Print container logs"),
    "help": ("help", "Show the help of a command or a topic"),
    "completion": ("help", "Print a shell completion script"),
    "version": ("help", "Print the version"),
}
"""Each command with its package and what it does."""

TOPICS = {
    "node": """\
The node is described by documents and by options; an option overrides the same field of a
document. Documents are read in order: a KubeletConfiguration, the Node object that kubectl prints,
or qoslet's own Node (qoslet config -o yaml prints one). What none of them gives is read from this
machine.""",
}
"""What ``qoslet help`` explains beside the commands."""


def overview() -> str:
    """What ``qoslet --help`` prints."""
    lines = ["usage: qoslet COMMAND [OPTION]..."]
    for group, heading in GROUPS.items():
        lines += ["", f"{heading}:"]
        lines += [
            f"  {name:<11} {about}" for name, (own, about) in COMMANDS.items() if own == group
        ]
    lines += ["", "qoslet COMMAND -h shows the options of a command."]
    return "\n".join(lines) + "\n"


def module_of(command: str) -> ModuleType:
    """The module of a command."""
    from importlib import import_module

    return import_module(f"qoslet.cli.{COMMANDS[command][0]}.{command}")


def parser_of(command: str) -> Parser:
    """The parser of a command."""
    from qoslet.cli.parser import Parser

    module = module_of(command)
    parser = Parser(
        prog=f"qoslet {command}",
        usage=module.USAGE,
        description=f"{COMMANDS[command][1]}.",
        epilog=getattr(module, "EPILOG", None),
    )
    module.add_arguments(parser)
    return parser
