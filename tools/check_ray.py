"""Refuses to go on beside a running Ray that this environment cannot join.

That is the Ray that `ray.init()` would choose: RAY_ADDRESS, or the last `ray start` here. An
environment joins only a Ray of its own version. One that does not answer is none. Prints what to do
and returns 1 where a Ray runs but refuses.
"""

from __future__ import annotations

import socket
import sys

SECONDS = 5.0


def answers(address: str) -> bool:
    """Whether something listens at `address` ("host:port")."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


def main() -> int:
    """The exit code."""
    import ray
    from ray._private.services import canonicalize_bootstrap_address

    address = canonicalize_bootstrap_address(None)
    if address is None or not answers(address):
        return 0
    try:
        ray.init(address="auto", logging_level="ERROR", log_to_driver=False)
    except Exception as error:
        print(
            f"A Ray runs at {address} that Ray {ray.__version__} of this environment cannot join. "
            "Stop that one (ray stop), or leave it alone: RAY_ADDRESS=local make demo. "
            f"Ray says: {error}"
        )
        return 1
    ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
