"""`agentmem doctor`: every check in its order, each told as soon as it is known.

First what can be seen without a cluster, then the cluster and its machines, at last one fake trial through
all of it. With `static` nothing is started but, for a moment, an embedded replay server.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from agentmem.app.doctor import cluster, configured, machines, models, servers
from agentmem.app.doctor.finding import Finding, Unfit, Unseen, Verdict, examine
from agentmem.app.doctor.node import facts
from agentmem.app.doctor.patient import Patient
from agentmem.failures import AgentMemError

Check = Callable[[Patient], str]
Tell = Callable[[Finding], None]

BEFORE: tuple[tuple[str, Check], ...] = (
    ("settings", configured.settings),
    ("secrets", configured.secrets),
    ("data", configured.data),
    ("models", models.files),
    ("tokenizer", models.tokenizer),
    ("chat template", models.chat_template),
    ("words", models.words),
    ("upload", configured.upload),
    ("replay server", servers.replay),
    ("replay password", servers.replay_password),
    ("replay file", servers.replay_file),
    ("replay memory", servers.replay_memory),
    ("ray", machines.ray_package),
    ("authentication", machines.authentication),
)
"""What needs no cluster."""
MACHINES: tuple[tuple[str, Check], ...] = (
    ("environment", configured.environment),
    ("engines", servers.engines),
    ("code", machines.code),
    ("disk", machines.disk),
    ("shared memory", machines.shared_memory),
    ("shared directory", machines.shared_directory),
    ("clock", machines.clock),
)
"""What is asked of every machine: of this one alone with `static`."""
CLUSTER, PLACEMENT, TRIAL = "cluster", "placement", "fake trial"
NAMES = (*(n for n, _ in BEFORE), CLUSTER, PLACEMENT, *(n for n, _ in MACHINES), TRIAL)
"""All checks, in their order."""
WIDTH = max(map(len, NAMES))


def diagnose(patient: Patient, *, static: bool, tell: Tell) -> list[Finding]:
    """All findings; `tell` gets each as it comes."""
    from agentmem.app.reporting.rundir import runs_base
    from envs.data import cache_dir

    findings: list[Finding] = []

    def note(finding: Finding) -> None:
        findings.append(finding)
        tell(finding)

    env = patient.config.env
    here = ("this machine", env.name, str(runs_base()), str(cache_dir()))
    patient.nodes = [facts(*here, options=env.options)]
    for name, check in BEFORE:
        note(examine(name, lambda check=check: check(patient)))  # type: ignore[misc]
    with ExitStack() as stack:
        joined = note_joining(patient, static, stack, note)
        for name, check in MACHINES:
            note(examine(name, lambda check=check: check(patient)))  # type: ignore[misc]
        note(examine(TRIAL, lambda: _trial(patient, findings, joined, static)))
    return findings


def note_joining(patient: Patient, static: bool, stack: ExitStack, note: Tell) -> bool:
    """The checks of cluster and placement; whether there is a cluster now, until the stack closes."""
    from agentmem.app.live.joining import learner_request, resources

    config = patient.config
    requests = [learner_request(config)] if config.method == "mempi-stage1" else resources(config)

    def join() -> str:
        if static:
            raise Unseen("not asked (--static)")
        try:
            stack.enter_context(cluster.joined(patient, requests))
        except AgentMemError as error:
            raise Unfit(type(error), str(error), "is the head up, and RAY_ADDRESS its address?") from error
        return cluster.cluster(patient)

    found = examine(CLUSTER, join)
    note(found)
    joined = found.verdict is Verdict.GOOD

    def place() -> str:
        if not joined:
            raise Unseen(
                f"asked for: {'; '.join(' '.join(line.split()) for line in cluster.table(requests))}"
            )
        return cluster.placement(requests, patient)

    note(examine(PLACEMENT, place))
    return joined


def _trial(patient: Patient, findings: list[Finding], joined: bool, static: bool) -> str:
    from agentmem.app.doctor.trial import fake_trial

    if static:
        raise Unseen("not played (--static)")
    bad = [finding.check for finding in findings if finding.verdict is Verdict.BAD]
    if bad or not joined:
        raise Unseen(f"not played, since a check failed: {', '.join(bad)}")
    return fake_trial(patient)
