"""Faults put into the product one at a time; each must make a test of CI fail.

A mutation is a slice_ of source text, which must occur exactly once in its file, and what takes its place. `tests` are
the tests that are to notice, as arguments of pytest: of `make test` unless `suite` names another part of CI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CORE: Final = "python/hudi_py/"
CONNECTOR: Final = "connector/pyspark_hudi/"


@dataclass(frozen=True, slots=True)
class Mutation:
    name: str
    file: str
    """Relative to the checkout."""
    old: str
    new: str
    tests: str
    """Separated by blanks."""
    suite: str = "make test"


MUTATIONS: Final = (
    # -- merging -----------------------------------------------------------------------------------------------------
    Mutation(
        "merge: a delete block does not delete",
        CORE + "merge/reduce.py",
        "        deletes=versions.deletes[row],\n        always",
        "        deletes=versions.deletes[row] & ~versions.entries[row],\n        always",
        "tests/unit/merge/test_log.py tests/unit/merge/test_fold.py tests/unit/merge/test_reduce.py",
    ),
    Mutation(
        "merge: the first of equal ordering values wins",
        CORE + "merge/reduce.py",
        "    winner[in_order[reached]] = reached\n",
        "    winner[in_order[reached[::-1]]] = reached[::-1]\n",
        "tests/unit/merge/test_log.py tests/unit/merge/test_fold.py tests/unit/merge/test_reduce.py",
    ),
    Mutation(
        "merge: a commit-time delete spares what came before it",
        CORE + "merge/reduce.py",
        "        alive = sequence > after\n",
        "        alive = sequence != after\n",
        "tests/unit/merge/test_log.py tests/unit/merge/test_fold.py tests/unit/merge/test_reduce.py",
    ),
    Mutation(
        "merge: _hoodie_is_deleted is ignored",
        CORE + "merge/reduce.py",
        "        result |= true_where(table[IS_DELETED])\n",
        "        pass\n",
        "tests/unit/merge/test_log.py tests/unit/merge/test_fold.py tests/unit/merge/test_reduce.py",
    ),
    Mutation(
        "partial updates: a row that a log has deleted comes back",
        CORE + "write/operations/upsert.py",
        "    if not len(doubtful):\n        return placed\n",
        "    return placed\n",
        "tests/unit/write/test_partial_updates.py::test_new_rows_and_rows_of_deleted_keys_are_complete",
    ),
    Mutation(
        "partial updates: blocks do not say that columns are missing",
        CORE + "write/handles/append.py",
        '        header[HeaderKey.IS_PARTIAL] = "true"\n',
        "",
        "tests/unit/write/test_partial_updates.py::test_new_rows_and_rows_of_deleted_keys_are_complete",
    ),
    Mutation(
        "merge: null ordering values are the greatest",
        CORE + "merge/ordering.py",
        "    if array.null_count and not has_default_zero(kind):\n        codes = np.array(codes, np.int64)\n"
        "        codes[pc.is_null(array).to_numpy(zero_copy_only=False)] = _NULL\n",
        "    if array.null_count and not has_default_zero(kind):\n        codes = np.array(codes, np.int64)\n"
        "        codes[pc.is_null(array).to_numpy(zero_copy_only=False)] = -(_NULL + 1)\n",
        "tests/unit/merge/test_log.py tests/unit/merge/test_fold.py tests/unit/merge/test_reduce.py",
    ),
    Mutation(
        "log: blocks of rolled-back instants count (version 6)",
        CORE + "merge/log.py",
        '                blocks.pop(block.header.get(HeaderKey.TARGET_INSTANT_TIME, ""), None)\n',
        "",
        "tests/unit/merge/test_log.py",
    ),
    Mutation(
        "log: blocks of uncommitted instants count (version 6)",
        CORE + "merge/log.py",
        " or (committed is not None and instant not in committed)",
        "",
        "tests/unit/merge/test_log.py",
    ),
    Mutation(
        "log: a compacted block and those it replaces both count",
        CORE + "merge/log.py",
        "                replaced_by[original.strip()] = replaced_by.get(instant, instant)\n",
        "                pass\n",
        "tests/unit/merge/test_log.py",
    ),
    # -- timeline and view -------------------------------------------------------------------------------------------
    Mutation(
        "lock: the lease of another is over before it is, by the difference of clocks",
        CORE + "transaction/locks/storage.py",
        "now_ms <= self.valid_until_ms + DRIFT_MS",
        "now_ms <= self.valid_until_ms",
        "tests/unit/transaction/test_storage_lock.py",
    ),
    Mutation(
        "lock: a lease that was not renewed still counts",
        CORE + "transaction/locks/storage.py",
        "held = self._version is not None and time.monotonic() < self._deadline",
        "held = self._version is not None",
        "tests/unit/transaction/test_storage_lock.py",
    ),
    Mutation(
        "lock: a lock that another has taken over still counts",
        CORE + "transaction/locks/storage.py",
        "lease.owner == self._owner and not lease.expired\n        if not held:",
        "True\n        if not held:",
        "tests/unit/transaction/test_storage_lock.py",
    ),
    Mutation(
        "storage: the answer to a conditional write is believed",
        CORE + "storage/conditional.py",
        "                if found is not None and found.data == data:\n                    return found.version\n",
        "",
        "tests/unit/storage/test_conditional.py",
    ),
    Mutation(
        "clock: an instant may equal the newest on the timeline",
        CORE + "timeline/clock.py",
        "            chosen = now if now > floor else add_ms(floor, 1)\n",
        "            chosen = max(now, floor)\n",
        "tests/unit/timeline/test_clock.py",
    ),
    Mutation(
        "clock: a timeline ahead of the clock is accepted",
        CORE + "timeline/clock.py",
        "        if ahead_ms > self.skew_ms:\n",
        "        if ahead_ms > self.skew_ms * 1_000_000:\n",
        "tests/unit/timeline/test_clock.py",
    ),
    Mutation(
        "view: replaced file groups are read",
        CORE + "view/filesystem_view.py",
        "            if replaced_at is None or (as_of is not None and replaced_at > as_of):\n",
        "            if replaced_at is None or as_of is not None or replaced_at:\n",
        "tests/unit/view/test_view.py",
    ),
    Mutation(
        "view: logs written while a compaction is pending are left out",
        CORE + "view/filesystem_view.py",
        "                logs = sorted([*compacted.logs, *newest.logs], key=lambda log: log.name.sort_key)\n",
        "                logs = list(compacted.logs)\n",
        "tests/unit/view/test_view.py",
    ),
    Mutation(
        "view: a log belongs to the slice before, where its commit completed at the slice's instant or later",
        CORE + "view/filesystem_view.py",
        "instant for instant in slices if instant <= completed)",
        "instant for instant in slices if instant <= log.name.instant)",
        "tests/unit/view/test_view.py",
    ),
    Mutation(
        "view: base files of uncommitted instants are read",
        CORE + "view/filesystem_view.py",
        "        return self.timeline.is_committed(instant_time)\n",
        "        return True\n",
        "tests/unit/view/test_view.py",
    ),
    # -- reading -----------------------------------------------------------------------------------------------------
    Mutation(
        "stream: a batch of limited commits takes one more",
        CORE + "read/offsets.py",
        "count >= self.commits",
        "count > self.commits",
        "tests/unit/read/test_stream.py",
    ),
    Mutation(
        "slice: incremental rows are not filtered by commit",
        CORE + "read/slice.py",
        "    if commit_times is None:\n        return batch\n",
        "    if commit_times is None or len(commit_times):\n        return batch\n",
        "tests/unit/read/test_incremental.py",
    ),
    Mutation(
        "skipping: a key the record index lacks is nowhere, on merge-on-read tables too",
        CORE + "read/prune_files.py",
        "                if other not in found:\n                    return None\n",
        "                if other not in found:\n                    continue\n",
        "tests/golden/test_metadata.py",
    ),
    Mutation(
        "skipping: partition statistics of now are used for an earlier time",
        CORE + "read/prune_files.py",
        "        if statistics is None or not self._newest:\n",
        "        if statistics is None:\n",
        "tests/unit/read/test_skipping.py",
    ),
    Mutation(
        "skipping: the greatest key of a base file is not looked for in it",
        CORE + "read/prune_files.py",
        'low <= key.encode("utf-16-be") <= high',
        'low <= key.encode("utf-16-be") < high',
        "tests/unit/read/test_skipping.py",
    ),
    # -- writing -----------------------------------------------------------------------------------------------------
    Mutation(
        "index: keys at the upper end of a file's range are taken for new",
        CORE + "write/index/base_files.py",
        "pc.less_equal(self.keys, high)",
        "pc.less(self.keys, high)",
        "tests/unit/write/test_index.py",
    ),
    Mutation(
        "index: a table with bucket ids is written to",
        CORE + "write/index/other_indexes.py",
        "    elif found and all(_BUCKET_ID.match(slice_.file_id) for slice_ in found):\n",
        "    elif False and all(_BUCKET_ID.match(slice_.file_id) for slice_ in found):\n",
        "tests/unit/write/test_index.py",
    ),
    Mutation(
        "global index: the row of the old partition stays when a key moves",
        CORE + "write/placement/relocate.py",
        "            _add(into, rows.filter(goes), file_ids.filter(goes), partitions.filter(goes), leaving=True)\n",
        "            pass\n",
        "tests/unit/write/test_record_index_tagging.py",
    ),
    Mutation(
        "small files: those under pending compaction are filled",
        CORE + "write/placement/assign.py",
        "        and slice_.file_id not in excluded\n",
        "",
        "tests/unit/write/test_assign.py",
    ),
    # -- transactions ------------------------------------------------------------------------------------------------
    Mutation(
        "conflicts: another completed write is no conflict",
        CORE + "transaction/conflicts/single_writer.py",
        '                raise _conflict(own, instant, f"({metadata.operation}) has been completed")\n',
        "                continue\n",
        "tests/unit/transaction/test_conflicts.py",
    ),
    Mutation(
        "conflicts: a compaction scheduled meanwhile is no conflict",
        CORE + "transaction/conflicts/single_writer.py",
        "                overlap = rewritten & groups if instant.time > own else frozenset()\n",
        "                overlap = rewritten & groups if instant.time < own else frozenset()\n",
        "tests/unit/transaction/test_conflicts.py",
    ),
    Mutation(
        "conflicts: a clustering of the same file group is no conflict",
        CORE + "transaction/conflicts/single_writer.py",
        "                overlap = scope.touched & groups\n",
        "                continue\n",
        "tests/unit/transaction/test_conflicts.py",
    ),
    Mutation(
        "lock: never taken",
        CORE + "transaction/locks/file.py",
        "        if not self._storage.put_if_absent(self.path, content):\n            return False\n",
        "        self._storage.put(self.path, content)\n",
        "tests/unit/transaction/test_locks.py",
    ),
    Mutation(
        "lock: one that was taken away is not noticed before the commit",
        CORE + "transaction/action.py",
        "    table.lock.check()\n",
        "",
        "tests/unit/transaction/test_transaction.py",
    ),
    Mutation(
        "lock: who has released it takes it again before those who wait",
        CORE + "transaction/locks/file.py",
        "                self._sleep(2 * _LONGEST_WAIT_S)\n",
        "                pass\n",
        "tests/unit/transaction/test_locks.py",
    ),
    Mutation(
        "failed writes: rolled back in spite of the policy NEVER",
        CORE + "transaction/recovery/failed_writes.py",
        "                    dead = []\n",
        "                    pass\n",
        "tests/unit/transaction/test_optimistic.py",
    ),
    Mutation(
        "early detection: writes count whose heartbeat has expired",
        CORE + "transaction/conflicts/early.py",
        "        return beat_ms is not None and now_ms() - beat_ms <= self._session.settings.heartbeat_expiry_ms\n",
        "        return beat_ms is not None\n",
        "tests/unit/transaction/test_optimistic.py",
    ),
    Mutation(
        "early detection: writes that began later count",
        CORE + "transaction/conflicts/early.py",
        "if info.name < self._scope.instant]",
        "if info.name != self._scope.instant]",
        "tests/unit/transaction/test_optimistic.py",
    ),
    Mutation(
        "conflicts: an index that was dropped since keys were looked up is not missed",
        CORE + "transaction/transaction.py",
        "        if gone is not None:\n            raise gone\n",
        "",
        "tests/unit/write/test_record_index_tagging.py",
    ),
    Mutation(
        "distributed: rows that tasks have written are not written again",
        CORE + "write/distributed.py",
        "itertools.chain(staged_rows(storage, staged), *written)",
        "staged_rows(storage, staged)",
        "tests/unit/write/test_distributed_retries.py",
    ),
    Mutation(
        "routed writes: one file group in two tasks goes unnoticed",
        CORE + "write/distributed.py",
        "        for partition, file_id in sorted(found & seen):\n",
        "        for partition, file_id in ():\n",
        "tests/unit/write/test_routed.py::test_a_file_group_in_two_tasks_is_refused",
    ),
    Mutation(
        "routed writes: of equal rows any one counts",
        CORE + "write/routing.py",
        "    return table.take(pc.sort_indices(table[ORDER.name])).combine_chunks()\n",
        "    return table\n",
        "tests/unit/write/test_routed.py::test_of_equal_rows_the_last_of_the_input_counts",
    ),
    Mutation(
        "stream: a batch committed since the plan is written again",
        CORE + "write/stream.py",
        "        for metadata, instant in _since(table, self.pin):\n",
        "        for metadata, instant in ():\n",
        "tests/connector/test_sink.py",
    ),
    Mutation(
        "stream: a batch that is in the table is written again",
        CORE + "write/stream.py",
        "if last is None or last.id < self.id:",
        "if last is None or last.id <= self.id:",
        "tests/unit/write/test_stream.py",
    ),
    Mutation(
        "heartbeat: an expired one is renewed",
        CORE + "transaction/owner/heartbeat.py",
        "        if age_ms > self._expiry_ms:\n",
        "        if age_ms < 0:\n",
        "tests/unit/transaction/test_heartbeat.py",
    ),
    Mutation(
        "commit: files of attempts that did not report stay",
        CORE + "transaction/publication.py",
        "        if marker.path not in reported:\n            storage.delete(marker.path)\n",
        "        pass\n",
        "tests/unit/transaction/test_transaction.py",
    ),
    Mutation(
        "commit: a reported file that is missing is not noticed",
        CORE + "transaction/publication.py",
        '            raise superseded(storage, attempt, f"its data file {path} is missing")\n',
        "            continue\n",
        "tests/unit/transaction/test_transaction.py",
    ),
    Mutation(
        "recovery: a living writer's instant is rolled back",
        CORE + "transaction/recovery/failed_writes.py",
        "        return self.active_ms is None or now_ms() - self.active_ms > expiry_ms\n",
        "        return True\n",
        "tests/unit/transaction/test_pending_writes.py",
    ),
    Mutation(
        "optimistic: what completed since the begin is not looked at",
        CORE + "transaction/conflicts/optimistic.py",
        "        if each.time != scope.instant and (each.time, each.action.comparable) not in seen\n",
        "        if False\n",
        "tests/unit/transaction/test_optimistic.py",
    ),
    Mutation(
        "alter: a write that began before an alteration commits",
        CORE + "transaction/conflicts/optimistic.py",
        "        _check_altered(scope, completed)\n",
        "",
        "tests/unit/write/test_alter.py",
    ),
    Mutation(
        "alter: a write gives a new column the id of a dropped one",
        CORE + "schema/ids.py",
        "    ids = _Ids(last_id(latest) + 1, table)\n",
        "    ids = _Ids(max(_all_ids(latest.record)) + 1, table)\n",
        "tests/unit/write/test_alter.py",
    ),
    Mutation(
        "optimistic: replaced file groups are not compared",
        CORE + "transaction/conflicts/optimistic.py",
        "    return _written(metadata) | replaced\n",
        "    return _written(metadata)\n",
        "tests/unit/transaction/test_optimistic.py",
    ),
    Mutation(
        "optimistic: any compaction may be followed",
        CORE + "transaction/conflicts/optimistic.py",
        "        if instant.time < scope.instant:\n            return True  #",
        "        if True:\n            return True  #",
        "tests/unit/transaction/test_optimistic.py",
    ),
    Mutation(
        "optimistic: a new base file follows any compaction",
        CORE + "transaction/conflicts/optimistic.py",
        "        return not (scope.touched - scope.logged) & _changed(metadata)\n",
        "        return True\n",
        "tests/unit/transaction/test_optimistic.py",
    ),
    Mutation(
        "optimistic: pending clusterings are no conflict",
        CORE + "transaction/conflicts/optimistic.py",
        '                    yield instant, "CLUSTER", table.plans.file_groups(instant)\n',
        "                    continue\n",
        "tests/unit/transaction/test_optimistic.py",
    ),
    Mutation(
        "optimistic: a compaction planned meanwhile is no conflict in version 6",
        CORE + "transaction/conflicts/optimistic.py",
        '                yield instant, "COMPACT", table.plans.file_groups(instant)\n',
        "                continue\n",
        "tests/unit/transaction/test_optimistic.py",
    ),
    Mutation(
        "optimistic: archived instants are not missed",
        CORE + "transaction/conflicts/optimistic.py",
        "        if timeline.start is not None and time < timeline.start:\n",
        "        if timeline.start is None:\n",
        "tests/unit/transaction/test_optimistic.py",
    ),
    Mutation(
        "optimistic: the schema of another write is not taken over",
        CORE + "transaction/conflicts/schemas.py",
        "        return now\n",
        "        return None\n",
        "tests/unit/transaction/test_optimistic.py",
    ),
    Mutation(
        "optimistic: a rollback that another engine carries out is finished",
        CORE + "transaction/recovery/failed_writes.py",
        "            continue  # Apache Hudi carries rollbacks out without the lock\n",
        "            pass\n",
        "tests/unit/transaction/test_optimistic.py",
    ),
    Mutation(
        "optimistic: completion times do not wait for other clocks",
        CORE + "transaction/action.py",
        "        session.clock.wait_skew()",
        "        pass",
        "tests/unit/transaction/test_optimistic.py",
    ),
    Mutation(
        "optimistic: a lock within one process will do",
        CORE + "transaction/settings.py",
        "        if provider is None or provider == lock_config.IN_PROCESS_LOCK:\n",
        "        if provider is None:\n",
        "tests/unit/transaction/test_optimistic.py",
    ),
    Mutation(
        "retries: a stream is not copied",
        CORE + "write/retry.py",
        "    if source.replayable or not retries:\n",
        "    if True:\n",
        "tests/unit/write/test_after_commit.py",
    ),
    # -- metadata table ----------------------------------------------------------------------------------------------
    Mutation(
        "metadata table: deleted files stay listed",
        CORE + "metadata_write/partitions/files.py",
        "        removed += [False] * len(new) + [True] * len(gone)\n",
        "        removed += [False] * len(new) + [False] * len(gone)\n",
        "tests/unit/metadata_write/test_files_index.py",
    ),
    Mutation(
        "metadata table: new partitions are not listed",
        CORE + "metadata_write/partitions/files.py",
        "            yield _partition_list(touched, removed=False)\n",
        "            pass\n",
        "tests/unit/metadata_write/test_files_index.py tests/unit/metadata_write/test_column_stats.py",
    ),
    Mutation(
        "metadata table: no delete block for removed keys",
        CORE + "metadata_write/table/delta.py",
        "        blocks.append(encode_block(BlockType.DELETE, header, encode_deletes(deleted, of, None)))\n",
        "        pass\n",
        "tests/unit/metadata_write/test_record_index.py tests/unit/metadata_write/test_services.py",
    ),
    Mutation(
        "record index: of two places of a key the older one stands",
        CORE + "metadata_write/partitions/record_entries.py",
        "np.append(last, True)",
        "np.insert(last, 0, True)",
        "tests/unit/metadata_write/test_record_index.py",
    ),
    Mutation(
        "secondary index: the entry of a row's former value stays",
        CORE + "metadata_write/partitions/secondary_index.py",
        '                entries.remove(removed, "")\n',
        "",
        "tests/unit/metadata_write/test_secondary_index.py",
        suite="make quick-slow",
    ),
    Mutation(
        "secondary index: the whole key chooses the file group in version 2",
        CORE + "metadata_write/table/buffer.py",
        "secondary_prefixes(texts) if records.by_prefix else texts",
        "texts",
        "tests/unit/metadata_write/test_secondary_index.py",
    ),
    Mutation(
        "metadata table: made in version 6 while another write is pending",
        CORE + "metadata_write/table/create.py",
        "    return tuple(write.time for write in PendingPlans(session.storage, timeline).writes)\n",
        "    return ()\n",
        "tests/unit/metadata_write/test_concurrent_writers.py",
    ),
    Mutation(
        "metadata table: a file that changed is not checked again",
        CORE + "metadata/table.py",
        "stamps[file.path] != before.get(file.path)",
        "file.path not in before",
        "tests/unit/metadata_write/test_check.py",
    ),
    Mutation(
        "metadata table: rebuilt without data files that are lost",
        CORE + "metadata_write/maintenance/rebuild.py",
        "        lost = lost_files(session.view(table.timeline))\n",
        "        lost = ()\n",
        "tests/unit/metadata_write/test_lost_files.py",
    ),
    # -- table services ----------------------------------------------------------------------------------------------
    Mutation(
        "compaction: logs are left out",
        CORE + "services/compaction/rewrite.py",
        "task.slice.log_files, spec",
        "task.slice.log_files[:-1], spec",
        "tests/unit/services/compaction/test_compaction_service.py",
    ),
    Mutation(
        "clean: savepointed files go",
        CORE + "services/clean/plan.py",
        "        if guards.savepointed and not guards.savepointed.isdisjoint(slice_.names):\n            return True\n",
        "",
        "tests/unit/services/test_clean_plan.py tests/unit/services/test_clean_service.py",
    ),
    Mutation(
        "clean: what a pending compaction reads goes",
        CORE + "services/clean/guards.py",
        "        return since is not None and base_instant >= since\n",
        "        return since is not None and base_instant > since\n",
        "tests/unit/services/test_clean_plan.py tests/unit/services/test_clean_service.py",
    ),
    Mutation(
        "clean: one commit fewer is retained",
        CORE + "services/clean/policy.py",
        "        earliest = completed[-settings.commits_retained]\n",
        "        earliest = completed[1 - settings.commits_retained]\n",
        "tests/unit/services/test_clean_plan.py tests/unit/services/test_clean_service.py",
    ),
    Mutation(
        "clean: the slice that was current at the earliest commit goes",
        CORE + "services/clean/plan.py",
        "            and slice_.base_instant not in (newest, before)\n",
        "            and slice_.base_instant != newest\n",
        "tests/unit/services/test_clean_plan.py tests/unit/services/test_clean_service.py",
    ),
    Mutation(
        "archive: instants from a pending one on are archived",
        CORE + "services/archive/select.py",
        "        if limit is not None and instant.time >= limit.time:\n            break\n",
        "",
        "tests/unit/services/test_archive_select.py",
    ),
    Mutation(
        "archive: savepointed commits are archived",
        CORE + "services/archive/select.py",
        "        if savepoints and not settings.beyond_savepoint and instant.time >= savepoints[0]:\n"
        "            break\n",
        "",
        "tests/unit/services/test_archive_select.py",
    ),
    # -- change data capture -----------------------------------------------------------------------------------------
    Mutation(
        "changes: deletes are not logged",
        CORE + "merge/base.py",
        "            self._watch(batch.take(pa.array(hits[deletes])), None)\n",
        "            pass\n",
        "tests/unit/write/test_changes.py",
    ),
    Mutation(
        "changes: a rewritten file whose rows stay has no change log",
        CORE + "write/changes.py",
        "        if self._pending or not self._size:\n            self._write_block()\n        return",
        "        if self._pending:\n            self._write_block()\n        return {} if not self._size else",
        "tests/unit/write/test_changes.py",
    ),
    Mutation(
        "changes: the commit takes change logs for files of lost attempts",
        CORE + "transaction/attempt.py",
        "{path for stat in reported for path in stat.files}",
        "{stat.path for stat in reported}",
        "tests/unit/write/test_changes.py",
    ),
)
