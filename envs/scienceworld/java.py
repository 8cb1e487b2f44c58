"""ScienceWorld's simulator: one Java process for one environment, on a port and with a password of its own.

The process ends with its owner, however that ends: it reads from a pipe that only its owner holds open, and
exits when the pipe breaks. Its options stand on its command line: capped heap, one thread for cleaning up,
and an exit instead of limping on when memory is out.

Only what is needed to play is asked for: neither the listing of actions nor a solution, unless called for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import weakref
from typing import IO, Any
from zlib import crc32

from envs.options import EnvSetupError

_SHUTDOWN_S = 10.0
_OUT_OF_MEMORY = 3  # the exit status that -XX:+ExitOnOutOfMemoryError gives


def missing_java() -> str | None:
    """What to do if there is no Java here, else None."""
    if shutil.which(_java()):
        return None
    return (
        "scienceworld: missing program java (8 or newer): install a Java runtime "
        "(Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME"
    )


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else "java"


class SimulatorDied(RuntimeError):
    """The Java process ended by itself. A new simulator must be started."""


class Simulator:
    """A running simulator. Raises `EnvSetupError` if Java isn't there or doesn't start."""

    def __init__(self, heap_mb: int) -> None:
        missing = missing_java()
        if missing:
            raise EnvSetupError(missing)
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (the Java process writes to it as long as it runs)
        gateway, self.process = _launched(heap_mb, self._errors)
        self._end = weakref.finalize(self, _end, gateway, self.process, self._errors)
        self._gateway = gateway
        self._server = gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()
        self._random = getattr(getattr(gateway.jvm.scala.util, "Random$"), "MODULE$")

    @property
    def alive(self) -> bool:
        """Whether the Java process runs."""
        return self._end.alive and self.process.poll() is None

    def load(self, task: str, variation: int, simplifications: str) -> str:
        """Start a task's variation anew. Returns what is seen at first.

        Scala's common generator is seeded by the instance, so that nothing that is drawn from it differs from
        one start to the next.
        """
        self._random.setSeed(crc32(f"{task}/{variation}".encode()))
        self._call("load", task, variation, simplifications, False)
        return self.step("look around")

    def step(self, action: str) -> str:
        """What comes of an action, in the simulator's words."""
        return str(self._call("step", action))

    def points(self) -> int:
        """The score from 0 to 100; negative after a mistake that can't be made good."""
        return round(100 * float(self._call("getScore")))

    def completed(self) -> bool:
        """Whether the simulator sees the task as done."""
        return bool(self._call("getCompleted"))

    def task(self) -> str:
        """The text of the task."""
        return str(self._call("freeActionTaskDesc")).partition("\n")[2].strip()

    def valid_actions(self) -> tuple[str, ...]:
        """All actions that are possible now, sorted. Slow."""
        return tuple(sorted(set(self._list("getValidActionObjectCombinations"))))

    def solution(self, task: str, variation: int, simplifications: str) -> list[str]:
        """ScienceWorld's own solution of a variation, which is loaded by this. Slow."""
        self._call("load", task, variation, simplifications, True)
        return self._list("getGoldActionSequence")

    def splits(self, task: str) -> tuple[list[int], list[int], list[int]]:
        """A task's official training, development and testing variations. The task is loaded by this."""
        self._call("load", task, 0, "", False)
        names = ("getVariationsTrain", "getVariationsDev", "getVariationsTest")
        train, dev, test = map(self._list, names)
        return train, dev, test

    def task_names(self) -> list[str]:
        """The names of all tasks."""
        return self._list("getTaskNames")

    def close(self) -> None:
        """End the Java process and wait for it. Idempotent."""
        self._end()

    def _list(self, method: str) -> list[Any]:
        """A list of the Java process, copied; its own is given up there at once."""
        theirs = self._call(method)
        ours = list(theirs)
        self._gateway.detach(theirs)
        return ours

    def _call(self, method: str, *arguments: Any) -> Any:
        from py4j.protocol import Py4JError

        if not self._end.alive:
            raise SimulatorDied("ScienceWorld's Java process was closed")
        try:
            return getattr(self._server, method)(*arguments)
        except (Py4JError, OSError) as error:
            try:
                status = self.process.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                raise error from None  # it lives: the call itself failed
            said = "out of memory, raise heap_mb" if status == _OUT_OF_MEMORY else _last_line(self._errors)
            self.close()
            raise SimulatorDied(f"ScienceWorld's Java process ended (status {status}): {said}") from None


def _launched(heap_mb: int, errors: IO[str]) -> tuple[Any, subprocess.Popen[bytes]]:
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    from scienceworld.constants import BASEPATH, JAR_PATH

    flags = [f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-Xss4m", "-XX:+ExitOnOutOfMemoryError"]
    # The simulator keeps things in sets that are ordered by the objects' identity hashes, which are random: a
    # room would list its things in another order at each start. With equal hashes it is that of insertion,
    # and steps take two to three times as long.
    flags += ["-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2"]
    try:
        port, password, process = launch_gateway(
            classpath=JAR_PATH,
            javaopts=flags,
            java_path=None,
            cwd=BASEPATH,
            die_on_exit=True,
            enable_auth=True,
            redirect_stderr=errors,
            return_proc=True,
        )
    except ValueError:  # instead of its port it wrote nothing: it has ended
        said = _last_line(errors)
        errors.close()
        raise EnvSetupError(f"scienceworld: java doesn't start: {said}") from None
    # Memory management would send commands whenever Python's garbage collector runs, even to a dead process.
    parameters = GatewayParameters(port=port, auth_token=password, enable_memory_management=False)
    return JavaGateway(gateway_parameters=parameters), process


def _end(gateway: Any, process: subprocess.Popen[bytes], errors: IO[str]) -> None:
    gateway.close()
    process.kill()  # it has nothing to save
    process.wait(timeout=_SHUTDOWN_S)
    if process.stdin:
        process.stdin.close()
    errors.close()


def _last_line(errors: IO[str]) -> str:
    errors.seek(0)
    lines = [line.strip() for line in errors if line.strip() and not line.startswith("Picked up")]
    return lines[-1] if lines else "it said nothing"
