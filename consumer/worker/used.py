"""What this process has used, asked of the kernel."""

import resource

from consumer.usage import Usage


def used(counted: resource.struct_rusage) -> Usage:
    """Return what the kernel has counted."""
    return Usage(
        user=counted.ru_utime,
        system=counted.ru_stime,
        minor_faults=counted.ru_minflt,
        major_faults=counted.ru_majflt,
    )


def used_here() -> Usage:
    """Return the same of this process and its children that were waited for, so far."""
    own, theirs = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return Usage(
        user=own.ru_utime + theirs.ru_utime,
        system=own.ru_stime + theirs.ru_stime,
        minor_faults=own.ru_minflt + theirs.ru_minflt,
        major_faults=own.ru_majflt + theirs.ru_majflt,
    )
