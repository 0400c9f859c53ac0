"""Parsing of tables on a Ray cluster.

Ray is imported only when it is used.  unspool must be installed on every node.  ``unspool batch --ray`` also
needs a file system that all nodes share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from ..dialects import Dialect
from ..errors import UsageError

if TYPE_CHECKING:
    from . import Column, ParseOptions
    from .input_files import Part
    from .job import Job, Record

__all__ = ["parse_dataset"]


def parse_dataset(dataset: Any, dialect: str | Dialect | Column, **options: Unpack[ParseOptions]) -> Any:
    """Parse every output in a ``ray.data.Dataset``; return a dataset with the columns of ``PARSED``.

    :param options: the options of ``unspool.batch.parse_batch``.  A ``key`` is required, because the rows of
        a dataset are not ordered and have no row numbers.
    """
    from . import parse_batch

    if not options.get("key"):
        raise UsageError(
            "call ids cannot be derived from row numbers on a cluster: pass key= with the name of a column"
        )
    return dataset.map_batches(
        parse_batch, fn_args=(dialect,), fn_kwargs=dict(options), batch_format="pyarrow", zero_copy_batch=True
    )


class Cluster:
    """Workers on a Ray cluster; each part is a task, which Ray runs again if its node fails."""

    def __init__(self, address: str) -> None:
        try:
            import ray
        except ImportError as error:
            raise UsageError("running on a cluster needs Ray: pip install 'unspool[ray]'") from error

        from .job import do_part

        self._ray = ray
        try:
            ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError) as error:
            raise UsageError(f"cannot connect to a Ray cluster at {address}: {error}") from error
        self.capacity = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._task = ray.remote(num_cpus=1, max_retries=-1)(do_part)
        self._job: Any = None

    def start(self, job: Job, part: Part) -> Any:
        """Start processing a part on the cluster; return a handle for this part."""
        self._job = self._job or self._ray.put(job)
        return self._task.remote(self._job, part)

    def finished(self, running: list[Any]) -> Any:
        """Wait until one of the running parts is done; return its handle."""
        done, _ = self._ray.wait(running, num_returns=1)
        return done[0]

    def record(self, handle: Any) -> Record:
        """Return the record of a finished part, or raise the error that stopped its processing."""
        record: Record = self._ray.get(handle)
        return record

    def close(self) -> None:
        """Disconnect from the cluster."""
        self._ray.shutdown()
