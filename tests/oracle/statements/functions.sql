# TestHoodieTableValuedFunction TestCDCForSparkSQL
== queries by function [kind: cow, mor]
% hoodie.spark.sql.insert.into.operation = upsert
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts') LOCATION '{path}/t';
INSERT INTO {t} VALUES (1, 'a1', 10, 1000), (2, 'a2', 20, 1000);
? SELECT id, name, price, ts FROM hudi_query('{t}', 'read_optimized');
INSERT INTO {t} VALUES (1, 'a1_1', 10, 1100), (2, 'a2_2', 20, 1100);
? SELECT id, name, price, ts FROM hudi_query('{t}', 'read_optimized');
? SELECT id, name, price, ts FROM hudi_query('{t}', 'snapshot');
! [hudi_query, incremental] SELECT id FROM hudi_query('{t}', 'incremental');
! [not_found|no hudi table] SELECT id FROM hudi_query('{t}x', 'snapshot');

== changes, the latest state [kind: cow, mor] [named: {t}, {path}/t]
% hoodie.spark.sql.insert.into.operation = upsert
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts', 'hoodie.write.table.version' = '6') LOCATION '{path}/t';
INSERT INTO {t} VALUES (1, 'a1', 10, 1000), (2, 'a2', 20, 1000), (3, 'a3', 30, 1000);
@ first = SELECT max(_hoodie_commit_time) FROM {t};
? SELECT id, name, price, ts FROM hudi_table_changes('{named}', 'latest_state', 'earliest');
INSERT INTO {t} VALUES (1, 'a1_1', 10, 1100), (2, 'a2_2', 20, 1100);
@ second = SELECT max(_hoodie_commit_time) FROM {t};
? SELECT id, name, price, ts FROM hudi_table_changes('{named}', 'latest_state', '{first}');
INSERT INTO {t} VALUES (1, 'a1_1', 10, 1200), (3, 'a3_3', 30, 1200);
? SELECT id, name, price, ts FROM hudi_table_changes('{named}', 'latest_state', '{first}', '{second}');

== changes, captured [kind: cow, mor] [mode: data_before_after, op_key_only, data_before]
% hoodie.spark.sql.insert.into.operation = upsert
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts', 'hoodie.table.cdc.enabled' = 'true', 'hoodie.table.cdc.supplemental.logging.mode' = '{mode}');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000), (2, 'a2', 20, 1000);
? SELECT op, get_json_object(before, '$.id'), get_json_object(after, '$.id'), get_json_object(after, '$.name'), get_json_object(after, '$.price') FROM hudi_table_changes('{t}', 'cdc', 'earliest');
INSERT INTO {t} VALUES (1, 'a1_1', 10, 1100), (3, 'a3', 30, 1100);
UPDATE {t} SET price = 11 WHERE id = 2;
DELETE FROM {t} WHERE id = 3;
? SELECT op, get_json_object(before, '$.id'), get_json_object(before, '$.name'), get_json_object(before, '$.price'), get_json_object(after, '$.id'), get_json_object(after, '$.name'), get_json_object(after, '$.price') FROM hudi_table_changes('{t}', 'cdc', 'earliest');

== changes of a partitioned table [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, pt STRING) USING hudi PARTITIONED BY (pt) TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts', 'hoodie.table.cdc.enabled' = 'true');
INSERT INTO {t} VALUES (1, 'a1', 11, 1000, '2021'), (2, 'a2', 12, 1000, '2022'), (3, 'a3', 13, 1000, '2022');
UPDATE {t} SET price = 22 WHERE id = 2;
DELETE FROM {t} WHERE id = 3;
MERGE INTO {t} s USING (SELECT 1 AS id, 'a1_v2' AS name, 101 AS price, 2001L AS ts, '2021' AS pt UNION SELECT 4, 'a4', 14, 2000L, '2023') u ON s.id = u.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
? SELECT op, get_json_object(before, '$.id'), get_json_object(before, '$.price'), get_json_object(after, '$.id'), get_json_object(after, '$.price'), get_json_object(after, '$.pt') FROM hudi_table_changes('{t}', 'cdc', 'earliest');
INSERT OVERWRITE TABLE {t} PARTITION (pt = '2022') VALUES (9, 'a9', 90, 5000);
? SELECT op, get_json_object(before, '$.id'), get_json_object(after, '$.id') FROM hudi_table_changes('{t}', 'cdc', 'earliest') WHERE get_json_object(after, '$.id') = '9' OR op = 'd';

== file slices by function [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE) USING hudi PARTITIONED BY (price) TBLPROPERTIES (type = '{kind}', primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1', 10.0), (2, 'a2', 20.0);
INSERT INTO {t} VALUES (4, 'a4', 10.0), (5, 'a5', 20.0);
? SELECT Partition_Path FROM hudi_filesystem_view('{t}', 'price*');

== the timeline by function [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts') LOCATION '{path}/t';
INSERT INTO {t} VALUES (1, 'a1', 1000), (2, 'a2', 1000);
INSERT INTO {t} VALUES (4, 'a4', 1000);
? SELECT action, state, total_files_updated, total_partitions_written, total_records_written, total_updated_records_written, total_write_errors FROM hudi_query_timeline('{t}', 'true');
? SELECT action, state FROM hudi_query_timeline('{path}/t', 'false');

== the metadata table by function
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', hoodie.metadata.record.index.enable = 'true');
INSERT INTO {t} VALUES (1, 'a1', 1000), (2, 'a2', 1000);
? SELECT type, key FROM hudi_metadata('{t}') WHERE type = 5;
? SELECT DISTINCT type FROM hudi_metadata('{t}');
