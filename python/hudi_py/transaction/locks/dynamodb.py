"""The table lock in DynamoDB, as stored by Amazon's lock client (`DynamoDBBasedLockProviderBase`, 1.2.0;
`dynamodb-lock-client` 1.2.0).

A lock is an item whose `recordVersionNumber` its holder changes at every heartbeat. A lock that has not changed for a
whole lease, by the waiting process's clock, is taken over: clocks of two hosts are never compared.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hudi_py.config import concurrency as config
from hudi_py.errors import ConfigError, LockError, first_line
from hudi_py.storage import Storage
from hudi_py.storage.credentials import boto3_client
from hudi_py.timeline.properties import load_table_config
from hudi_py.transaction.locks.settings import LockSettings
from hudi_py.transaction.locks.table_lock import NOT_RENEWED, HeldByContext, LockHolder, Renewal
from hudi_py.transaction.locks.zookeeper import path_hash
from hudi_py.transaction.owner.identity import WriterIdentity, process_identity

_log = logging.getLogger(__name__)


class DynamoLock(HeldByContext):
    """The lock of one table, held by one thread at a time. Use as a context manager.

    Args:
        storage_options: may hold credentials, or name what provides them; otherwise boto3 finds them.
    """

    def __init__(
        self,
        storage: Storage,
        settings: LockSettings,
        *,
        purpose: str,
        storage_options: Mapping[str, str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if settings.dynamodb is None:
            raise ConfigError(f"Cannot {purpose}: the lock in DynamoDB has no table")
        super().__init__(settings, purpose, sleep=sleep)
        self._dynamodb = settings.dynamodb
        self._lease_s = settings.get(config.LOCK_WAIT_MS) / 1000
        """As in Java, a lock is valid for as long as one try waits."""
        self._key = (
            path_hash(storage.uri)
            if self._dynamodb.key_of_path
            else self._dynamodb.key or load_table_config(storage).name
        )
        self.place = f"dynamodb://{self._dynamodb.region}/{self._dynamodb.table}/{self._key}"
        self._client: Any = self._connect_client(storage_options or {}, storage.uri)
        self._failed: Any = importlib.import_module("botocore.exceptions").ClientError
        self._guard = threading.Lock()
        self._owner = ""
        self._record = ""
        """Version of our item; empty if the lock is not held."""
        self._deadline = 0.0
        self._seen: tuple[str, float] = ("", 0.0)
        self._renewal: Renewal | None = None

    def acquire(self) -> None:
        """Waits for the lock. Creates the DynamoDB table if there is none.

        Raises:
            LockError: it could not be acquired in time, or DynamoDB rejected the requests.
        """
        self._owner = f"{WriterIdentity(uuid.uuid4().hex, process_identity())}"
        self._seen = ("", 0.0)
        with self._convert_errors():
            self._ensure_table()
            self._wait_for(
                self._try_acquire,
                self._describe_holder,
                # As in Java, wait for the lease of a holder that may be dead, in addition to the normal wait
                patience_ms=self._settings.lease_patience_ms + self._settings.get(config.LOCK_WAIT_MS),
            )
        self._renewal = Renewal(self._renew_lease, self._lease_s / 3, f"hudi-lock-{self._key}")

    def check(self) -> None:
        """Raises LockError if the lease has expired, another holder has the lock, or DynamoDB does not answer."""
        with self._guard:
            held = bool(self._record) and time.monotonic() < self._deadline
        with self._convert_errors():
            item = self._read_item() if held else None
        if item is None or _text_of(item, "ownerName") != self._owner:
            raise self._lost_error(NOT_RENEWED, option=config.LOCK_WAIT_MS.key)

    def release(self) -> None:
        """Deletes the item, unless it belongs to another holder."""
        renewal, self._renewal = self._renewal, None
        if renewal is None:
            return
        renewal.stop()
        with self._guard:
            record, self._record = self._record, ""
        try:
            if not record or not self._delete_item(record, self._owner):
                _log.warning("the table lock %s was taken away while held", self.place)
        except Exception as error:  # whatever boto3 raises: the write itself is complete
            _log.warning("the table lock %s could not be released; others wait for its lease: %s", self.place, error)

    def holder(self) -> LockHolder | None:
        """Returns the current holder, or one whose process ended without releasing the lock. DynamoDB stores no times.

        Raises:
            LockError: DynamoDB cannot be reached, or rejects the request.
        """
        with self._convert_errors():
            item = self._read_item()
        if item is None or "isReleased" in item:
            return None
        owner = _text_of(item, "ownerName")
        return LockHolder("DynamoDBBasedLockProvider", self.place, owner, None, None, owner)

    def break_held(self, owner: str) -> bool:
        """Deletes an owner's item.

        Raises:
            LockError: DynamoDB cannot be reached, or rejects the request.
        """
        with self._convert_errors():
            item = self._read_item()
            if item is None or _text_of(item, "ownerName") != owner:
                return False
            return self._delete_item(_text_of(item, "recordVersionNumber"), owner)

    @contextlib.contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Converts errors of botocore to LockError."""
        try:
            yield
        except importlib.import_module("botocore.exceptions").BotoCoreError as error:
            raise LockError(
                f"Cannot {self._purpose}: the table lock {self.place} cannot be reached: {first_line(error)}; check "
                f"network and credentials, {config.DYNAMODB_REGION.key} and {config.DYNAMODB_ENDPOINT.key}",
                path=self.place,
            ) from None
        except self._failed as error:
            what = error.response["Error"]
            raise LockError(
                f"Cannot {self._purpose}: DynamoDB rejects a request for the table lock {self.place}: "
                f"{what.get('Code')}, {what.get('Message')}; check region, table and permissions",
                path=self.place,
            ) from None

    def _connect_client(self, options: Mapping[str, str], uri: str) -> Any:
        return boto3_client(
            "dynamodb",
            options,
            uri,
            region_name=self._dynamodb.region,
            endpoint_url=self._dynamodb.endpoint,
            # A request repeated because its answer was lost finds its own item: the stored item decides
            config=importlib.import_module("botocore.config").Config(
                retries={"total_max_attempts": 3, "mode": "standard"}
            ),
        )

    def _try_acquire(self) -> bool:
        item = self._read_item()
        if item is None:
            return self._put_item("attribute_not_exists(#k)", {})
        if "isReleased" in item:
            return self._put_item("attribute_exists(#k) AND #ir = :ir", {"#ir": "isReleased"}, {":ir": {"S": "1"}})
        record, now = _text_of(item, "recordVersionNumber"), time.monotonic()
        if self._seen[0] != record:
            self._seen = record, now
            return False
        if now - self._seen[1] <= int(_text_of(item, "leaseDuration")) / 1000:
            return False
        return self._put_item(
            "attribute_exists(#k) AND #rvn = :rvn", {"#rvn": "recordVersionNumber"}, {":rvn": {"S": record}}
        )

    def _put_item(self, condition: str, names: Mapping[str, str], values: Mapping[str, Any] | None = None) -> bool:
        record, asked = str(uuid.uuid4()), time.monotonic()
        written = {
            "key": {"S": self._key},
            "ownerName": {"S": self._owner},
            "leaseDuration": {"S": str(self._settings.get(config.LOCK_WAIT_MS))},
            "recordVersionNumber": {"S": record},
        }
        more = {"ExpressionAttributeValues": dict(values)} if values else {}
        return self._write_conditionally(
            "put_item",
            record,
            asked,
            Item=written,
            ConditionExpression=condition,
            ExpressionAttributeNames={"#k": "key", **names},
            **more,
        )

    def _renew_lease(self) -> bool:
        record, asked = str(uuid.uuid4()), time.monotonic()
        with self._guard:
            current = self._record
        return bool(current) and self._write_conditionally(
            "update_item",
            record,
            asked,
            Key={"key": {"S": self._key}},
            UpdateExpression="SET #ld = :ld, #rvn = :new",
            ConditionExpression="attribute_exists(#k) AND #rvn = :rvn AND #on = :on",
            ExpressionAttributeNames={
                "#k": "key",
                "#ld": "leaseDuration",
                "#rvn": "recordVersionNumber",
                "#on": "ownerName",
            },
            ExpressionAttributeValues={
                ":ld": {"S": str(self._settings.get(config.LOCK_WAIT_MS))},
                ":rvn": {"S": current},
                ":new": {"S": record},
                ":on": {"S": self._owner},
            },
        )

    def _write_conditionally(self, operation: str, record: str, asked: float, **request: Any) -> bool:
        """Writes our item conditionally. Returns False if another write came first."""
        written = self._try_request(operation, **request)
        if not written:
            item = self._read_item()
            written = item is not None and _text_of(item, "recordVersionNumber") == record
        with self._guard:
            if written:
                self._record, self._deadline = record, asked + self._lease_s * 0.9
            elif operation == "update_item":
                self._record = ""
        return written

    def _delete_item(self, record: str, owner: str) -> bool:
        return self._try_request(
            "delete_item",
            Key={"key": {"S": self._key}},
            ConditionExpression="attribute_exists(#k) AND #rvn = :rvn AND #on = :on",
            ExpressionAttributeNames={"#k": "key", "#rvn": "recordVersionNumber", "#on": "ownerName"},
            ExpressionAttributeValues={":rvn": {"S": record}, ":on": {"S": owner}},
        )

    def _try_request(self, operation: str, **request: Any) -> bool:
        """Returns False if the condition of a request does not hold."""
        try:
            getattr(self._client, operation)(TableName=self._dynamodb.table, **request)
        except self._failed as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                return False
            raise
        return True

    def _read_item(self) -> Mapping[str, Any] | None:
        answer = self._client.get_item(
            TableName=self._dynamodb.table, Key={"key": {"S": self._key}}, ConsistentRead=True
        )
        item: Mapping[str, Any] | None = answer.get("Item")
        return item

    def _ensure_table(self) -> None:
        """Creates the lock table if there is none."""
        try:
            status = self._client.describe_table(TableName=self._dynamodb.table)["Table"]["TableStatus"]
        except self._client.exceptions.ResourceNotFoundException:
            status = "CREATING"
            capacity = self._dynamodb.provisioned
            billing: dict[str, Any] = {"BillingMode": "PAY_PER_REQUEST"}
            if capacity is not None:
                billing = {
                    "BillingMode": "PROVISIONED",
                    "ProvisionedThroughput": {"ReadCapacityUnits": capacity[0], "WriteCapacityUnits": capacity[1]},
                }
            # Another writer may be creating it at the same time
            with contextlib.suppress(self._client.exceptions.ResourceInUseException):
                self._client.create_table(
                    TableName=self._dynamodb.table,
                    KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
                    AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
                    **billing,
                )
        if status == "CREATING":
            seconds = max(self._settings.get(config.DYNAMODB_CREATION_MS) // 1000, 1)
            waiter = self._client.get_waiter("table_exists")
            waiter.wait(TableName=self._dynamodb.table, WaiterConfig={"Delay": 1, "MaxAttempts": seconds})

    def _describe_holder(self) -> str:
        holder = self.holder()
        return "a writer that has just released it" if holder is None else holder.owner


def _text_of(item: Mapping[str, Any], name: str) -> str:
    return str(item.get(name, {}).get("S", ""))
