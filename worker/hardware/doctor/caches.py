"""Rows 13, 14 and 15: the folders of kernels that MIOpen and the compilers have built."""

from worker.hardware.doctor.evidence import Evidence, KernelCache
from worker.hardware.doctor.finding import Finding, Row, bad, ok, unknown

NETWORK = ("nfs", "cifs", "smb", "lustre", "fuse.sshfs", "9p", "ceph", "gpfs", "beegfs")
"""File systems without reliable locks. Source: sqlite.org/lockingv3, ROCm/MIOpen#1295."""

FLEETING = ("tmpfs", "ramfs", "overlay", "overlayfs")
"""File systems whose content is lost with the container or at the next boot."""

NO_DATABASE = "Missing system database file"


def check_warm(evidence: Evidence) -> Finding:
    """Row 13: check whether compiled kernels are kept."""
    if not evidence.caches:
        return unknown("no folder for compiled kernels is set")
    for cache in evidence.caches:
        if not cache.is_writable:
            what = "write to" if cache.exists else "create"
            return bad(
                "slows",
                evidence=f"user {evidence.uid} cannot {what} {cache.path}",
                cause="every job builds its kernels again, so its first steps take minutes",
                fix=(make := _make_folder(cache.path, evidence.uid)),
                command=make,
            )
        if evidence.is_container and cache.file_system in FLEETING:
            return bad(
                "slows",
                evidence=f"{cache.path} is on {cache.file_system}",
                cause="it is lost with the container, and everything is compiled again",
                fix=f"volumes: [kernels:{cache.path}]   in compose",
            )
    empty = [cache.path for cache in evidence.caches if not cache.num_files]
    if empty and evidence.gpus:
        return bad(
            "note",
            evidence=f"{empty[0]} is empty",
            cause="MIOpen has not searched for its fastest kernels here yet",
            fix="nothing: the first job takes minutes to start, later ones do not",
        )
    files = sum(cache.num_files for cache in evidence.caches)
    return ok(f"{', '.join(c.path for c in evidence.caches)}: writable, {files} files")


def check_databases(evidence: Evidence) -> Finding:
    """Row 14: check MIOpen's SQLite files."""
    databases = [database for cache in evidence.caches for database in cache.databases]
    broken = [database for database in databases if "malformed" in database.verdict]
    broken += [database for database in databases if "not a database" in database.verdict]
    if broken:
        files = " ".join(database.path for database in broken)
        return bad(
            "blocks",
            evidence=f"{broken[0].path}: {broken[0].verdict}",
            cause="two writers at once, a full disk, or a network file system",
            fix=f"rm {files}   (while no job runs; they are built again)",
            command=f"rm {files}",
            details={"paths": [database.path for database in broken]},
        )
    if deaths := evidence.deaths_of(14):
        return bad(
            "slows",
            evidence=f"attempt {deaths[-1].attempt_id}: {deaths[-1].line}",
            cause="a database of compiled kernels was damaged, or locked by another process",
            fix="set a separate folder for each worker: REDKILN_KERNEL_CACHE_DIR=/path/of/its/own",
        )
    if shared := [cache for cache in evidence.caches if _is_network(cache)]:
        return bad(
            "slows",
            evidence=f"{shared[0].path} is on {shared[0].file_system}",
            cause="SQLite's locks are unreliable there, and will eventually corrupt a database",
            fix="REDKILN_KERNEL_CACHE_DIR=/var/cache/redkiln   (a local disk)",
        )
    if not evidence.caches:
        return unknown("no folder for compiled kernels is set")
    return ok(f"SQLite's quick check passes for {len(databases)} databases")


def check_missing_system_database(evidence: Evidence) -> Finding:
    """Row 15: look for a harmless message of MIOpen."""
    for name, text in evidence.logs.items():
        for line in text.splitlines():
            if NO_DATABASE in line:
                return bad(
                    "note",
                    evidence=f"{name}: {line.strip()[:200]}",
                    cause="AMD ships no tuned kernels for this card; MIOpen finds its own",
                    fix="nothing: this is harmless",
                )
    if not evidence.logs:
        return unknown("no trainer has left a log yet")
    return ok("no such line in the last logs")


def _make_folder(path: str, uid: int) -> str:
    return f"sudo mkdir -p {path} && sudo chown -R {uid} {path}"


def _is_network(cache: KernelCache) -> bool:
    return cache.file_system is not None and cache.file_system.startswith(NETWORK)


ROWS = (
    Row(
        13,
        "kernels_kept",
        "compiled kernels",
        "the first steps of every job take minutes",
        check_warm,
    ),
    Row(
        14,
        "databases_sound",
        "databases of kernels",
        "`database disk image is malformed`, `database is locked`",
        check_databases,
    ),
    Row(
        15,
        "system_database",
        "MIOpen's own database",
        "`Missing system database file: gfx1030_20.kdb`",
        check_missing_system_database,
    ),
)
