"""A browser environment in an env worker: its processes run their own Python; a hang costs one slot only."""

from __future__ import annotations

import asyncio

import psutil
import pytest

from actors.rollout.env_service import EnvService
from actors.rollout.env_session import RemoteEnvs
from actors.rollout.env_wire import EnvSettings
from agentmem.failures import EnvError
from envs.registry import style
from tests.envs.elsewhere import python_of
from tests.envs.miniwob_solutions import Page
from tests.envs.test_browser_process import all_gone, browsers_of
from tests.rollout.test_env_service import InProcess

OPTIONS = {"action_timeout_s": 12.0}


async def test_a_hung_browser_costs_its_own_slot_and_leaves_nothing_behind() -> None:
    it = EnvService(EnvSettings.named("miniwob", OPTIONS), 2, step_timeout_s=15.0)
    envs = RemoteEnvs("agent-0", style("miniwob", OPTIONS))
    envs.configure({"w": InProcess(it, 2)})
    hung, other = await envs.open(), await envs.open()
    first = await hung.reset("click-test/1")
    assert first.instruction == "Click the button."
    (host,) = (psutil.Process(pid) for pid in it.host_pids())
    assert host.cmdline()[0] == python_of("miniwob")
    started = host.children(recursive=True)
    page = Page((await other.reset("click-test-2/1")).observation)

    for browser in browsers_of(host):
        browser.suspend()
    with pytest.raises(EnvError, match="step took longer than 15 s"):
        await hung.step("click('13')")
    assert await asyncio.to_thread(all_gone, [host, *started])

    outcome = await other.step(f"click({page.one('button', 'ONE')!r})")
    assert outcome.success
    assert outcome.reward == 1.0
    assert it.stats().hung == 1
    await hung.close()
    again = await envs.open()
    assert (await again.reset("click-test/1")).observation == first.observation
    assert (await again.step("click('13')")).success

    hosts = [psutil.Process(pid) for pid in it.host_pids()]
    everything = [process for host in hosts for process in (host, *host.children(recursive=True))]
    assert len(hosts) == 2
    await envs.close()
    await it.close()
    assert await asyncio.to_thread(all_gone, everything)


async def test_a_lost_browser_is_a_failure_that_is_tried_again_elsewhere() -> None:
    it = EnvService(EnvSettings.named("miniwob", OPTIONS), 1, step_timeout_s=30.0)
    envs = RemoteEnvs("agent-0", style("miniwob", OPTIONS))
    envs.configure({"w": InProcess(it, 1)})
    session = await envs.open()
    await session.reset("click-test/1")
    for pid in it.host_pids():
        for browser in browsers_of(psutil.Process(pid)):
            browser.kill()
    with pytest.raises(EnvError, match="miniwob: "):
        await session.step("click('13')")
    await session.close()
    again = await envs.open()
    await again.reset("click-test/1")
    assert (await again.step("click('13')")).success
    await envs.close()
    await it.close()
