# SPDX-License-Identifier: MIT
"""What a call raises. The text is the library's own: it names what was wrong and what to do."""

from __future__ import annotations


class Error(Exception):
    """A call of the library failed. `status` is the name of the C status, "PTX_ERROR_JIT"; `code` is
    the driver's error number (CUresult), 0 if the driver was not the cause."""

    status = "PTX_OK"

    def __init__(self, message: str, *, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class InvalidError(Error, ValueError):
    """An argument is wrong; the message names it."""

    status = "PTX_ERROR_INVALID"


class ClosedError(InvalidError):
    """The object was closed before."""


class OutOfMemoryError(Error, MemoryError):
    """Host or device memory ran out."""

    status = "PTX_ERROR_OUT_OF_MEMORY"


class NoDriverError(Error):
    """No usable libcuda was found."""

    status = "PTX_ERROR_NO_DRIVER"


class NoDeviceError(Error):
    """The driver works but has no such GPU."""

    status = "PTX_ERROR_NO_DEVICE"


class DriverError(Error):
    """A driver call failed; `code` is its CUresult."""

    status = "PTX_ERROR_DRIVER"


class CompileError(Error):
    """The driver could not compile the text; the message has its log."""

    status = "PTX_ERROR_JIT"


class NotFoundError(Error, LookupError):
    """No kernel or variable of that name, no allocation at the address."""

    status = "PTX_ERROR_NOT_FOUND"


class UnsupportedError(Error):
    """This driver or GPU lacks the feature."""

    status = "PTX_ERROR_UNSUPPORTED"


class CaptureError(Error):
    """Not possible while the stream is captured, or only while it is."""

    status = "PTX_ERROR_CAPTURE"


class ForkedError(Error):
    """The parent process made the object before fork(). Start a child before CUDA is opened."""

    status = "PTX_ERROR_FORKED"


class NonfiniteError(Error, ArithmeticError):
    """A gradient is NaN or infinite; the message names it."""

    status = "PTX_ERROR_NONFINITE"


BY_STATUS = {
    kind.status: kind
    for kind in (InvalidError, OutOfMemoryError, NoDriverError, NoDeviceError, DriverError,
                 CompileError, NotFoundError, UnsupportedError, CaptureError, ForkedError,
                 NonfiniteError)
}
