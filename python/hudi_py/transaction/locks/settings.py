"""Settings of the table lock, resolved from options."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from typing import TypeVar

from hudi_py.config import DEFAULTS, Options, Problems
from hudi_py.config import concurrency as config
from hudi_py.config.option import Option
from hudi_py.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ZookeeperSettings:
    """The location of the lock in ZooKeeper (`BaseZookeeperBasedLockProvider`, 1.2.0)."""

    hosts: str
    base_path: str | None
    """None: derived from the table's path."""
    lock_key: str | None
    """None: the table's name, or `lock_key` below a derived base path."""


@dataclass(frozen=True, slots=True)
class DynamoSettings:
    """The location of the lock in DynamoDB (`DynamoDbBasedLockConfig`, 1.2.0)."""

    table: str
    key: str | None
    """None: the table's name, or derived from its path."""
    key_of_path: bool
    region: str
    endpoint: str | None
    provisioned: tuple[int, int] | None
    """Read and write capacity of the DynamoDB table if it is created; None: paid per request."""


@dataclass(frozen=True, slots=True)
class LockSettings:
    """The options of the table lock, and values derived from them (`HoodieLockConfig`, 1.2.0). Pickles; holds no
    credentials."""

    options: Options = DEFAULTS
    zookeeper: ZookeeperSettings | None = None
    """None if another provider has the lock."""
    dynamodb: DynamoSettings | None = None
    """None if another provider has the lock."""

    @classmethod
    def of(cls, options: Options) -> LockSettings:
        """Returns the settings of the lock that the options of a write ask for.

        Raises:
            ConfigError: the provider is unsupported, or lacks a required option or its Python package.
        """
        provider = options.get(config.LOCK_PROVIDER)
        problems, zookeeper, dynamodb = Problems(), None, None
        with problems.collected():
            _check_lease(options.get(config.STORAGE_VALIDITY_S), options.get(config.STORAGE_RENEW_S))
        with problems.collected():
            _check_provider(options, provider, config.ZOOKEEPER_URL, config.ZOOKEEPER_LOCK)
        with problems.collected():
            _check_provider(options, provider, config.DYNAMODB_TABLE, config.DYNAMODB_LOCK)
        with problems.collected():
            zookeeper = _zookeeper_settings(options, provider)
        with problems.collected():
            dynamodb = _dynamo_settings(options, provider)
        problems.check()
        return cls(options.without_credentials(), zookeeper, dynamodb)

    def get(self, option: Option[T]) -> T:
        """Returns the value of an option of the lock."""
        return self.options.get(option)

    @property
    def shared(self) -> bool:
        """Whether Apache Hudi is known to use the lock file at the same time."""
        return self.get(config.LOCK_PROVIDER) == config.FILE_SYSTEM_LOCK

    @property
    def renewal_s(self) -> float:
        """Seconds between two renewals of the lock in an object store."""
        return self.get(config.STORAGE_RENEW_S)

    @property
    def patience_ms(self) -> int:
        """How long to wait for the lock in milliseconds: one try, or as long as all retries if that is longer."""
        return max(self.get(config.LOCK_WAIT_MS), self.get(config.LOCK_RETRIES) * self.get(config.LOCK_RETRY_WAIT_MS))

    @property
    def lease_patience_ms(self) -> int:
        """The same for locks that Java's providers wait for within each try; must be longer than the lease of a dead
        holder."""
        try_ms = self.get(config.LOCK_WAIT_MS)
        return max(try_ms, self.get(config.LOCK_RETRIES) * (try_ms + self.get(config.LOCK_RETRY_WAIT_MS)))


def _check_lease(validity: int, renew: int) -> None:
    if validity < 10 * renew:
        raise ConfigError(
            f"Options {config.STORAGE_VALIDITY_S.key} = {validity} and {config.STORAGE_RENEW_S.key} = {renew} are "
            "incompatible: the lock must be valid for at least ten renewal intervals",
            key=config.STORAGE_VALIDITY_S.key,
        )


def _check_provider(options: Options, provider: str | None, given: Option[str | None], expected: str) -> None:
    """Raises ConfigError if options describe a lock that is not selected, because writers would not exclude one
    another."""
    if provider is None and options.given(given):
        raise ConfigError(
            f"Option {options.name_of(given)} is given without {config.LOCK_PROVIDER.key}; set it to {expected}, or "
            "leave both out",
            key=config.LOCK_PROVIDER.key,
        )


def _zookeeper_settings(options: Options, provider: str | None) -> ZookeeperSettings | None:
    if provider not in (config.ZOOKEEPER_LOCK, config.ZOOKEEPER_IMPLICIT_LOCK):
        return None
    implicit = provider == config.ZOOKEEPER_IMPLICIT_LOCK
    problems, hosts, base = Problems(), "", None
    with problems.collected():
        hosts = _required_option(options, provider, config.ZOOKEEPER_URL)
    with problems.collected():
        base = None if implicit else _required_option(options, provider, config.ZOOKEEPER_BASE_PATH)
    with problems.collected():
        _check_package("kazoo", provider, "zookeeper")
    problems.check()
    port = options.get(config.ZOOKEEPER_PORT)
    if port is not None:
        servers, slash, chroot = hosts.partition("/")
        hosts = ",".join(host if ":" in host else f"{host}:{port}" for host in servers.split(",")) + slash + chroot
    return ZookeeperSettings(
        hosts,
        base,
        None if implicit else options.get(config.ZOOKEEPER_LOCK_KEY),
    )


def _dynamo_settings(options: Options, provider: str | None) -> DynamoSettings | None:
    if provider not in (config.DYNAMODB_LOCK, config.DYNAMODB_IMPLICIT_LOCK):
        return None
    implicit = provider == config.DYNAMODB_IMPLICIT_LOCK
    _check_package("boto3", provider, "dynamodb")
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
    )


def _required_option(options: Options, provider: str, option: Option[str | None]) -> str:
    value = options.get(option)
    if value is None:
        raise ConfigError(
            f"Option {config.LOCK_PROVIDER.key} = '{provider}' needs {option.key}, which is missing: set it, to the "
            "same value for all writers of the table",
            key=option.key,
        )
    return value


def _check_package(name: str, provider: str, extra: str) -> None:
    if importlib.util.find_spec(name) is None:
        raise ConfigError(
            f"Option {config.LOCK_PROVIDER.key} = '{provider}' needs the package {name}, which is missing; install it "
            f"with `pip install 'hudi-py[{extra}]'`",
            key=config.LOCK_PROVIDER.key,
        )
