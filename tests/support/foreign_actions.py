"""Files that another engine leaves on a timeline: completed writes and plans of table services."""

from __future__ import annotations

import io

import fastavro

from hudi_py.model.commit import CommitMetadata
from hudi_py.model.instant import Action
from hudi_py.model.properties import TableConfig
from hudi_py.storage import Storage
from hudi_py.timeline.metadata import encode_commit_metadata
from hudi_py.timeline.timeline import load_timeline
from tests.support.hand_writes import fast_clock


def completed_by_java(
    storage: Storage,
    config: TableConfig,
    metadata: CommitMetadata,
    action: Action = Action.COMMIT,
    *,
    instant: str | None = None,
) -> str:
    timeline = load_timeline(storage, config)
    clock = fast_clock(config)
    time_ = instant or clock.next_instant(timeline)
    content = encode_commit_metadata(metadata, timeline.layout, action=action, completed=True)
    completion = clock.next_completion(timeline)
    storage.put(timeline.layout.path(timeline.layout.completed_name(time_, action, completion)), content)
    return time_


def avro_file(fields: list[dict[str, object]], record: dict[str, object]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "Plan", "fields": fields}, [record])
    return out.getvalue()


def piece(name: str) -> dict[str, object]:
    texts = [{"name": field, "type": "string"} for field in ("partitionPath", "fileId", "baseInstantTime")]
    return {"type": "record", "name": name, "fields": texts}


def compaction_plan(partition: str, file_id: str) -> bytes:
    operation = {"partitionPath": partition, "fileId": file_id, "baseInstantTime": "0"}
    fields = [{"name": "operations", "type": {"type": "array", "items": piece("Operation")}}]
    return avro_file(fields, {"operations": [operation]})


def clustering_plan(partition: str, file_id: str) -> bytes:
    slices = {"name": "slices", "type": {"type": "array", "items": piece("Slice")}}
    group = {"type": "record", "name": "Group", "fields": [slices]}
    groups = {"name": "inputGroups", "type": {"type": "array", "items": group}}
    fields = [
        {"name": "operationType", "type": "string"},
        {"name": "clusteringPlan", "type": {"type": "record", "name": "Clustering", "fields": [groups]}},
    ]
    found = {"partitionPath": partition, "fileId": file_id, "baseInstantTime": "0"}
    return avro_file(fields, {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": [{"slices": [found]}]}})
