"""A small systemd on a real bus: ``python -m tests.host.systemd.fake_systemd ADDRESS FOLDER``.

It owns org.freedesktop.systemd1, keeps units, and writes what they say into directories below
``FOLDER/cgroup`` as systemd does: after it has answered. Every call is a line of ``FOLDER/calls``.
``FOLDER/faults`` is what goes wrong: a JSON object of method to a list of faults, each used once:
``error NAME TEXT``, ``job RESULT``, ``lost`` (no signal), ``away`` (leaves the bus before the answer
and comes back), ``ignore`` (the kernel does not get it), ``silent`` (the answer never comes),
``gone`` (somebody stops the unit just before: systemd loads one of that name and keeps what it is
told below ``FOLDER/control``), ``kept`` (the same with a unit that runs).
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from dbus_fast import ErrorType, Message, MessageType, Variant
from dbus_fast.aio import MessageBus

NAME = "org.freedesktop.systemd1"
PLACE = "/org/freedesktop/systemd1"
MANAGER = f"{NAME}.Manager"
FILES = {
    "cgroup.controllers": "cpuset cpu io memory hugetlb pids",
    "cgroup.subtree_control": "cpuset cpu io memory pids",
    "cgroup.procs": "",
    "cpu.weight": "100",
    "cpu.max": "max 100000",
    "cpuset.cpus": "",
    "memory.current": "0",
    "memory.events": "oom_kill 0",
    "memory.high": "max",
    "memory.low": "0",
    "memory.max": "max",
    "memory.min": "0",
    "memory.oom.group": "0",
    "hugetlb.2MB.max": "max",
    "pids.max": "max",
}
AMOUNTS = {
    "MemoryMax": "memory.max",
    "MemoryHigh": "memory.high",
    "MemoryLow": "memory.low",
    "MemoryMin": "memory.min",
    "TasksMax": "pids.max",
    "CPUWeight": "cpu.weight",
}


class Fake:
    """The units by name: their properties, with ``state`` and ``result`` beside them."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address = address
        self.folder = folder
        self.units: dict[str, dict[str, Any]] = {}
        self.jobs = 0
        self.waiting: set[int] = set()
        self.bus: MessageBus

    async def join(self) -> None:
        self.bus = await MessageBus(bus_address=self.address).connect()
        self.bus.add_message_handler(self.handle)
        await self.bus.request_name(NAME)

    def fault(self, member: str) -> str:
        place = self.folder / "faults"
        faults = json.loads(place.read_text()) if place.exists() else {}
        if not faults.get(member):
            return ""
        found: str = faults[member].pop(0)
        place.write_text(json.dumps(faults))
        return found

    def handle(self, message: Message) -> Message | bool | None:
        if message.message_type is not MessageType.METHOD_CALL or not message.path:
            return None
        if not message.path.startswith(PLACE):
            return None
        member = message.member or ""
        said = [name for name, *_ in message.body[2]] if member == "SetUnitProperties" else []
        with (self.folder / "calls").open("a") as log:
            log.write(json.dumps([member, *message.body[:1], *said]) + "\n")
        fault = self.fault(member)
        if fault.startswith("error"):
            _, name, text = fault.split(" ", 2)
            return Message.new_error(message, name, text)
        if fault == "silent":
            return True
        answer = getattr(self, f"on_{member}", self.on_unknown)(message, fault)
        if fault == "away":
            asyncio.get_running_loop().create_task(self.leave())
            return True
        assert isinstance(answer, Message)
        return answer

    async def leave(self) -> None:
        """Off the bus, and back."""
        self.bus.disconnect()
        await asyncio.sleep(0.3)
        await self.join()

    def on_unknown(self, message: Message, _: str) -> Message:
        return Message.new_error(message, ErrorType.UNKNOWN_METHOD.value, "what?")

    def on_Ping(self, message: Message, _: str) -> Message:  # noqa: N802
        return Message.new_method_return(message)

    def on_Get(self, message: Message, _: str) -> Message:  # noqa: N802
        name = message.body[1]
        known = {"Version": "257.1-1", "ControlGroup": "", "State": "waiting"}
        if name in known:
            return Message.new_method_return(message, "v", [Variant("s", known[name])])
        unit = bytes.fromhex(hexed(message.path or "")).decode()
        row = self.units.get(unit, {})
        states = {"ActiveState": ("state", "inactive"), "FreezerState": ("freezer", "running")}
        found = row.get(*states.get(name, (name if name in row else "result", "")))
        return Message.new_method_return(message, "v", [Variant("s", found)])

    def on_GetJob(self, message: Message, _: str) -> Message:  # noqa: N802
        (number,) = message.body
        if number in self.waiting:
            return Message.new_method_return(message, "o", [f"{PLACE}/job/{number}"])
        return Message.new_error(message, f"{NAME}.NoSuchJob", "no such job")

    def on_StartTransientUnit(self, message: Message, fault: str) -> Message:  # noqa: N802
        unit, _, pairs, _ = message.body
        if unit in self.units:
            return Message.new_error(message, f"{NAME}.UnitExists", f"Unit {unit} exists.")
        given = {name: value.value for name, value in pairs}
        if fault == "waits":
            self.units[unit] = {"state": "inactive", "path": self.path(unit, given), **given}
            return self.job(message, unit, fault)
        self.units[unit] = {"state": "active", "path": self.path(unit, given), **given}
        self.make(self.units[unit]["path"])
        if fault != "ignore":
            self.write(unit, given)
        return self.job(message, unit, fault)

    def path(self, unit: str, given: dict[str, Any]) -> str:
        if unit.endswith(".scope"):
            return f"{self.path(given['Slice'], {})}/{unit}"
        parts = unit.removesuffix(".slice").split("-")
        return "".join(f"/{'-'.join(parts[: n + 1])}.slice" for n in range(len(parts)))

    def make(self, path: str) -> None:
        place = self.folder / "cgroup"
        for part in path.split("/")[1:]:
            place /= part
            if not place.exists():
                place.mkdir()
                self.units.setdefault(part, {"state": "active"})
                for file, text in FILES.items():
                    (place / file).write_text(text + "\n")

    def on_SetUnitProperties(self, message: Message, fault: str) -> Message:  # noqa: N802
        unit, _, pairs = message.body
        if fault == "gone":
            row = self.units.pop(unit)
            shutil.rmtree(self.folder / "cgroup" / row["path"].lstrip("/"))
            (self.folder / "control" / f"{unit}.d").mkdir(parents=True)
            return Message.new_method_return(message)
        if fault == "kept":
            (self.folder / "control" / f"{unit}.d").mkdir(parents=True)
        if unit not in self.units:
            return Message.new_error(message, f"{NAME}.NoSuchUnit", f"Unit {unit} not found.")
        given = {name: value.value for name, value in pairs}
        self.units[unit].update(given)
        if fault != "ignore":
            asyncio.get_running_loop().call_soon(self.write, unit, given)
        above = self.units[unit]["path"].rpartition("/")[0]
        for other, row in self.units.items() if fault == "reloaded" else ():
            # as after a daemon-reload: the units beside it get all of their values, too
            if other != unit and row.get("path", "").rpartition("/")[0] == above:
                asyncio.get_running_loop().call_soon(self.write, other, {})
        return Message.new_method_return(message)

    def write(self, unit: str, given: dict[str, Any]) -> None:
        place = self.folder / "cgroup" / self.units[unit]["path"].lstrip("/")
        # a quota is written with each property
        quota = self.units[unit].get("CPUQuotaPerSecUSec")
        for name, value in {"CPUQuotaPerSecUSec": quota, **given}.items():
            if name in AMOUNTS:
                text = "max" if value == 2**64 - 1 else str(value)
                (place / AMOUNTS[name]).write_text(text + "\n")
            elif name == "CPUQuotaPerSecUSec" and value is not None:
                quota = "max" if value == 2**64 - 1 else value // 10
                (place / "cpu.max").write_text(f"{quota} 100000\n")
            elif name == "PIDs":
                (place / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in value))
        kill = "1" if self.units[unit].get("OOMPolicy") == "kill" else "0"
        (place / "memory.oom.group").write_text(f"{kill}\n")

    def on_StopUnit(self, message: Message, fault: str) -> Message:  # noqa: N802
        unit = message.body[0]
        if unit not in self.units:
            return Message.new_error(message, f"{NAME}.NoSuchUnit", f"Unit {unit} not found.")
        if fault == "job frozen":
            return self.job(message, unit, fault)
        row = self.units.pop(unit)
        shutil.rmtree(self.folder / "cgroup" / row["path"].lstrip("/"), ignore_errors=True)
        if self.failed_below(row["path"]):
            self.units[unit] = {"state": "inactive", "result": "kept", "path": row["path"]}
        return self.job(message, unit, fault)

    def failed_below(self, path: str) -> list[str]:
        """Failed units below a path: they keep its unit loaded."""
        return [
            unit
            for unit, row in self.units.items()
            if row["state"] == "failed" and row.get("path", "").startswith(f"{path}/")
        ]

    def on_ListUnitsByPatterns(self, message: Message, _: str) -> Message:  # noqa: N802
        states, (pattern,) = message.body
        rows = [
            [unit, unit, "loaded", row["state"], row["state"], "", PLACE, 0, "", PLACE]
            for unit, row in self.units.items()
            if row["state"] in states and unit.endswith(pattern.removeprefix("*"))
        ]
        return Message.new_method_return(message, "a(ssssssouso)", [rows])

    def on_FreezeUnit(self, message: Message, _: str) -> Message:  # noqa: N802
        self.units[message.body[0]]["freezer"] = "frozen"
        return Message.new_method_return(message)

    def on_ThawUnit(self, message: Message, _: str) -> Message:  # noqa: N802
        return Message.new_method_return(message)

    def on_StartUnit(self, message: Message, fault: str) -> Message:  # noqa: N802
        unit = message.body[0]
        if self.units[unit]["state"] == "deactivating":
            return self.job(message, unit, "job canceled")
        self.units[unit]["state"] = "active"
        self.make(self.units[unit]["path"])
        return self.job(message, unit, fault)

    def on_ResetFailedUnit(self, message: Message, _: str) -> Message:  # noqa: N802
        row = self.units.get(message.body[0], {})
        if row.get("result") != "kept" and row.get("state") != "deactivating":
            self.units.pop(message.body[0], None)
        for unit, other in list(self.units.items()):
            if other["state"] == "inactive" and not self.failed_below(other["path"]):
                del self.units[unit]
        return Message.new_method_return(message)

    def on_RevertUnitFiles(self, message: Message, _: str) -> Message:  # noqa: N802
        for unit in message.body[0]:
            shutil.rmtree(self.folder / "control" / f"{unit}.d")
        return Message.new_method_return(message, "a(sss)", [[]])

    def on_End(self, message: Message, _: str) -> Message:  # noqa: N802
        """For tests: a scope ends with a result, as after an OOM kill."""
        unit, result = message.body
        path = self.units[unit]["path"]
        shutil.rmtree(self.folder / "cgroup" / path.lstrip("/"))
        self.units[unit] = {"state": "failed", "result": result, "path": path}
        return Message.new_method_return(message)

    def on_Stopping(self, message: Message, _: str) -> Message:  # noqa: N802
        """For tests: a scope is being ended, and its cgroup is gone already."""
        unit, seconds = message.body
        row = self.units[unit]
        shutil.rmtree(self.folder / "cgroup" / row["path"].lstrip("/"))
        row["state"] = "deactivating"
        ended = {"state": "failed", "result": "oom-kill"}
        asyncio.get_running_loop().call_later(seconds, row.update, ended)
        return Message.new_method_return(message)

    def job(self, message: Message, unit: str, fault: str) -> Message:
        self.jobs += 1
        path = f"{PLACE}/job/{self.jobs}"
        result = fault.removeprefix("job ") if fault.startswith("job ") else "done"
        signal = Message.new_signal(
            PLACE, MANAGER, "JobRemoved", "uoss", [self.jobs, path, unit, result]
        )
        if fault == "waits":
            self.waiting.add(self.jobs)
        elif fault != "lost":
            asyncio.get_running_loop().call_soon(self.bus.send, signal)
        return Message.new_method_return(message, "o", [path])


def hexed(path: str) -> str:
    """The unit's name in an object's path, as hex digits."""
    coded = path.rpartition("/")[2]
    found, at = "", 0
    while at < len(coded):
        if coded[at] == "_":
            found += coded[at + 1 : at + 3]
            at += 3
        else:
            found += f"{ord(coded[at]):02x}"
            at += 1
    return found


async def main() -> None:
    """Serve until the bus goes."""
    fake = Fake(sys.argv[1], Path(sys.argv[2]))
    await fake.join()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
