"""Settings of the table lock, resolved from options."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field

from hudi_py.config import Options, Problems
from hudi_py.config import concurrency as config
from hudi_py.config.option import Option
from hudi_py.errors import ConfigError


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Settings of the lock in an object store (`StorageBasedLockConfig`, 1.2.0)."""

    validity_s: float = config.STORAGE_VALIDITY_S.default
    renew_s: float = config.STORAGE_RENEW_S.default


@dataclass(frozen=True, slots=True)
class ZookeeperSettings:
    """Settings of the lock in ZooKeeper (`BaseZookeeperBasedLockProvider`, 1.2.0)."""

    hosts: str
    base_path: str | None
    """None: derived from the table's path."""
    lock_key: str | None = None
    """None: the table's name, or `lock_key` below a derived base path."""
    session_ms: int = config.ZOOKEEPER_SESSION_MS.default
    connection_ms: int = config.ZOOKEEPER_CONNECTION_MS.default


@dataclass(frozen=True, slots=True)
class DynamoSettings:
    """Settings of the lock in DynamoDB (`DynamoDbBasedLockConfig`, 1.2.0)."""

    table: str = "hudi_locks"
    key: str | None = None
    """None: the table's name, or derived from its path."""
    key_of_path: bool = False
    region: str = "us-east-1"
    endpoint: str | None = None
    provisioned: tuple[int, int] | None = None
    """Read and write capacity of a table that is created; None: paid per request."""
    creation_ms: int = config.DYNAMODB_CREATION_MS.default


@dataclass(frozen=True, slots=True)
class LockSettings:
    """Kind of the table lock and how long to wait for it (`HoodieLockConfig`, 1.2.0). Pickles; holds no credentials."""

    path: str | None = None
    """Folder of the lock file; None: the table's `.hoodie`."""
    expire_minutes: int = config.LOCK_EXPIRE_MINUTES.default
    """A lock file older than this may be broken; 0: never."""
    wait_ms: int = config.LOCK_WAIT_MS.default
    """Wait of one try in milliseconds. The total wait is this long, or as long as all retries, whichever is longer."""
    retries: int = config.LOCK_RETRIES.default
    retry_wait_ms: int = config.LOCK_RETRY_WAIT_MS.default
    """Java's pause between two tries in milliseconds; hudi-py's is shorter if this exceeds half a second."""
    shared: bool = False
    """Whether Apache Hudi is known to use the lock file at the same time."""
    provider: str | None = None
    """One of `hudi_py.config.concurrency.PROVIDERS`; None: chosen by the kind of storage."""
    lease: LeaseSettings = field(default_factory=LeaseSettings)
    zookeeper: ZookeeperSettings | None = None
    dynamodb: DynamoSettings = field(default_factory=DynamoSettings)

    @classmethod
    def of(cls, options: Options) -> LockSettings:
        """The lock that the options of a write ask for.

        Raises:
            ConfigError: the provider is unsupported, or lacks a required option or its Python package.
        """
        provider = options.get(config.LOCK_PROVIDER)
        validity, renew = options.get(config.STORAGE_VALIDITY_S), options.get(config.STORAGE_RENEW_S)
        problems, zookeeper, dynamodb = Problems(), None, DynamoSettings()
        with problems.collected():
            _check_lease(validity, renew)
        with problems.collected():
            _check_provider(options, provider, config.ZOOKEEPER_URL, config.ZOOKEEPER_LOCK)
        with problems.collected():
            _check_provider(options, provider, config.DYNAMODB_TABLE, config.DYNAMODB_LOCK)
        with problems.collected():
            zookeeper = _zookeeper(options, provider)
        with problems.collected():
            dynamodb = _dynamodb(options, provider)
        problems.check()
        return cls(
            path=options.get(config.LOCK_PATH),
            expire_minutes=options.get(config.LOCK_EXPIRE_MINUTES),
            wait_ms=options.get(config.LOCK_WAIT_MS),
            retries=options.get(config.LOCK_RETRIES),
            retry_wait_ms=options.get(config.LOCK_RETRY_WAIT_MS),
            shared=provider == config.FILE_SYSTEM_LOCK,
            provider=provider,
            lease=LeaseSettings(validity, renew),
            zookeeper=zookeeper,
            dynamodb=dynamodb,
        )

    @property
    def patience_ms(self) -> int:
        return max(self.wait_ms, self.retries * self.retry_wait_ms)

    @property
    def lease_patience_ms(self) -> int:
        """The same for locks that Java's providers wait for within each try; must outlast a dead holder's lease."""
        return max(self.wait_ms, self.retries * (self.wait_ms + self.retry_wait_ms))


def _check_lease(validity: int, renew: int) -> None:
    if validity < 10 * renew:
        raise ConfigError(
            f"Options {config.STORAGE_VALIDITY_S.key} = {validity} and {config.STORAGE_RENEW_S.key} = {renew} are "
            "incompatible: the lock must be valid for at least ten renewal intervals",
            key=config.STORAGE_VALIDITY_S.key,
        )


def _check_provider(options: Options, provider: str | None, given: Option[str | None], expected: str) -> None:
    """Raises ConfigError if options describe a lock that is not selected: writers would not exclude one another."""
    if provider is None and options.given(given):
        raise ConfigError(
            f"Option {options.name_of(given)} is given without {config.LOCK_PROVIDER.key}; set it to {expected}, or "
            "leave both out",
            key=config.LOCK_PROVIDER.key,
        )


def _zookeeper(options: Options, provider: str | None) -> ZookeeperSettings | None:
    if provider not in (config.ZOOKEEPER_LOCK, config.ZOOKEEPER_IMPLICIT_LOCK):
        return None
    implicit = provider == config.ZOOKEEPER_IMPLICIT_LOCK
    problems, hosts, base = Problems(), "", None
    with problems.collected():
        hosts = _required(options, provider, config.ZOOKEEPER_URL)
    with problems.collected():
        base = None if implicit else _required(options, provider, config.ZOOKEEPER_BASE_PATH)
    with problems.collected():
        _package("kazoo", provider, "zookeeper")
    problems.check()
    port = options.get(config.ZOOKEEPER_PORT)
    if port is not None:
        servers, slash, chroot = hosts.partition("/")
        hosts = ",".join(host if ":" in host else f"{host}:{port}" for host in servers.split(",")) + slash + chroot
    return ZookeeperSettings(
        hosts,
        base,
        None if implicit else options.get(config.ZOOKEEPER_LOCK_KEY),
        options.get(config.ZOOKEEPER_SESSION_MS),
        options.get(config.ZOOKEEPER_CONNECTION_MS),
    )


def _dynamodb(options: Options, provider: str | None) -> DynamoSettings:
    if provider not in (config.DYNAMODB_LOCK, config.DYNAMODB_IMPLICIT_LOCK):
        return DynamoSettings()
    implicit = provider == config.DYNAMODB_IMPLICIT_LOCK
    _package("boto3", provider, "dynamodb")
    endpoint = options.get(config.DYNAMODB_ENDPOINT)
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    capacity = options.get(config.DYNAMODB_READ_CAPACITY), options.get(config.DYNAMODB_WRITE_CAPACITY)
    return DynamoSettings(
        options.get(config.DYNAMODB_TABLE) or "hudi_locks",
        None if implicit else options.get(config.DYNAMODB_KEY),
        implicit,
        options.get(config.DYNAMODB_REGION) or os.environ.get("AWS_REGION") or "us-east-1",
        endpoint,
        capacity if options.get(config.DYNAMODB_BILLING) == "PROVISIONED" else None,
        options.get(config.DYNAMODB_CREATION_MS),
    )


def _required(options: Options, provider: str, option: Option[str | None]) -> str:
    value = options.get(option)
    if value is None:
        raise ConfigError(
            f"Option {config.LOCK_PROVIDER.key} = '{provider}' needs {option.key}, which is missing: set it, to the "
            "same value for all writers of the table",
            key=option.key,
        )
    return value


def _package(name: str, provider: str, extra: str) -> None:
    if importlib.util.find_spec(name) is None:
        raise ConfigError(
            f"Option {config.LOCK_PROVIDER.key} = '{provider}' needs the package {name}, which is missing; install it "
            f"with `pip install 'hudi-py[{extra}]'`",
            key=config.LOCK_PROVIDER.key,
        )
