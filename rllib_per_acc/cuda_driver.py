"""What the NVIDIA driver says, asked directly: no GPU backend needs to be loaded to know."""

from __future__ import annotations

import ctypes
import os

_LIBRARY = "libcuda.so.1"


def driver_problem() -> str:
    """Asks the driver for devices, which starts CUDA in this process where there is one.

    Returns:
        Why there is no CUDA device for this process, or ``""``.
    """
    try:
        cuda = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        return f"the NVIDIA driver's {_LIBRARY} cannot be loaded ({error})"
    status = cuda.cuInit(0)
    if status != 0:
        return f"the NVIDIA driver cannot be used: {_error(cuda, status)}{_visible_devices()}"
    count = ctypes.c_int(0)
    status = cuda.cuDeviceGetCount(ctypes.byref(count))
    if status != 0:
        return f"the NVIDIA driver cannot count its devices: {_error(cuda, status)}"
    if count.value == 0:
        return f"the NVIDIA driver finds no device{_visible_devices()}"
    return ""


def _error(cuda: ctypes.CDLL, status: int) -> str:
    text = ctypes.c_char_p()
    cuda.cuGetErrorString(status, ctypes.byref(text))
    hint = ""
    if status == 3:  # CUDA_ERROR_NOT_INITIALIZED
        hint = "; CUDA cannot be used in a process forked after its first use: use 'spawn'"
    return f"error {status}, {(text.value or b'unknown').decode()}{hint}"


def _visible_devices() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible!r})"
