"""Disturbances of a soak test: engines, workers and disks fail one after the other."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import time
from collections.abc import Mapping

from lab.soak.log import ResultLog
from lab.soak.processes import Engine, Gateway


class Disturber:
    """Source of disturbances, all of which go into the log."""

    def __init__(
        self, log: ResultLog, chance: random.Random, engines: Mapping[str, Engine], gateway: Gateway
    ) -> None:
        self._log = log
        self._chance = chance
        self._engines = engines
        self._gateway = gateway

    async def run(self, resting: asyncio.Event) -> None:
        """Disturb one component after the other."""
        while not resting.is_set():
            await asyncio.sleep(self._chance.uniform(3, 9))
            if resting.is_set():
                return
            what = self._chance.choice(
                (self.kill_engine, self.kill_engine, self.stop_engine, self.kill_worker, self.fill_disk)
            )
            await what()

    async def kill_engine(self) -> None:
        """Kill an engine and restart it."""
        engine = self._engines[self._chance.choice(list(self._engines))]
        disturbance = self._log.begin("engine killed", engine.name)
        await asyncio.to_thread(engine.kill)
        await asyncio.sleep(self._chance.uniform(0, 1.5))
        await asyncio.to_thread(engine.start)
        disturbance.ended = time.monotonic()

    async def stop_engine(self) -> None:
        """Suspend an engine for a while."""
        engine = self._engines[self._chance.choice(list(self._engines))]
        assert engine.process is not None  # noqa: S101
        disturbance = self._log.begin("engine suspended", engine.name)
        engine.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(self._chance.uniform(0.5, 3))
        engine.process.send_signal(signal.SIGCONT)
        disturbance.ended = time.monotonic()

    async def kill_worker(self) -> None:
        """Kill a worker."""
        gateway = self._gateway
        disturbance = self._log.begin("worker killed", gateway.name)
        os.kill(self._chance.choice(gateway.workers()), signal.SIGKILL)
        await asyncio.sleep(8)  # the supervisor waits before a restart
        disturbance.ended = time.monotonic()

    async def fill_disk(self) -> None:
        """Fill the disk for a while."""
        gateway = self._gateway
        disturbance = self._log.begin("the disk is full", gateway.name)
        workers = gateway.processes()
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        for limit in (0, hard):
            for pid in workers:
                try:
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, hard))
                except (OSError, ProcessLookupError):
                    continue
            if limit == 0:
                await asyncio.sleep(2)
        disturbance.ended = time.monotonic()
