"""Ray: tables of outputs on a cluster.

Ray is imported when it is used.  Every node needs unspool, and for files the same
file system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from ..dialects._declaration import Dialect
from ..errors import UsageError

if TYPE_CHECKING:
    from . import Column, ParseOptions
    from ._input_files import Part
    from ._job import Job, Record

__all__ = ["parse_dataset"]


def parse_dataset(dataset: Any, dialect: str | Dialect | Column, **options: Unpack[ParseOptions]) -> Any:
    """Take every output of a ``ray.data.Dataset`` apart; the new columns are ``unspool.batch.PARSED``.

    :param options: those of ``unspool.batch.parse_batch``.  There must be a ``key``, since
        rows have no numbers here and come in any order.
    """
    from . import parse_batch

    if not options.get("key"):
        raise UsageError("rows on a cluster have no numbers for ids to follow from: key= names a column")
    return dataset.map_batches(
        parse_batch, fn_args=(dialect,), fn_kwargs=dict(options), batch_format="pyarrow", zero_copy_batch=True
    )


class Cluster:
    """The nodes of a cluster as workers: a task for each part, done again if its node dies."""

    def __init__(self, address: str) -> None:
        try:
            import ray
        except ImportError as error:
            raise UsageError("a cluster needs Ray: pip install 'unspool[ray]'") from error

        from ._job import do_part

        self._ray = ray
        try:
            ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError) as error:
            raise UsageError(f"there is no Ray cluster at {address}: {error}") from error
        self.hands = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._task = ray.remote(num_cpus=1, max_retries=-1)(do_part)
        self._job: Any = None

    def start(self, job: Job, part: Part) -> Any:
        """Hand a part to the cluster."""
        self._job = self._job or self._ray.put(job)
        return self._task.remote(self._job, part)

    def finished(self, running: list[Any]) -> Any:
        """Wait until one of them is done."""
        done, _ = self._ray.wait(running, num_returns=1)
        return done[0]

    def record(self, handle: Any) -> Record:
        """Its record; raises what went wrong."""
        record: Record = self._ray.get(handle)
        return record

    def close(self) -> None:
        """Leave the cluster."""
        self._ray.shutdown()
