"""What a process has used, in the figures that a record carries."""

import resource


def used(*counted: resource.struct_rusage) -> list[float]:
    """Return the sum of what the kernel has counted: user and system seconds, minor and major page faults."""
    return [
        sum(item.ru_utime for item in counted),
        sum(item.ru_stime for item in counted),
        sum(item.ru_minflt for item in counted),
        sum(item.ru_majflt for item in counted),
    ]


def used_here() -> list[float]:
    """Return the same of this process and its children that were waited for, so far."""
    return used(resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
