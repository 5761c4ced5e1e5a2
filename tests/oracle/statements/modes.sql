# TestMergeModeEventTimeOrdering TestMergeModeCommitTimeOrdering TestPartialUpdateForMergeInto TestPersistedNullOrdering
== event time, rows [kind: cow, mor] [version: 6, 8, 9]
% hoodie.spark.sql.insert.into.operation = upsert
% hoodie.merge.small.file.group.candidates.limit = 0
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (hoodie.write.table.version = {version}, type = '{kind}', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} SELECT 1 AS id, 'A' AS name, 10.0 AS price, 100 AS ts UNION ALL SELECT 2, 'B', 20.0, 100;
INSERT INTO {t} SELECT 1 AS id, 'A_equal' AS name, 60.0 AS price, 100 AS ts UNION ALL SELECT 2, 'B_equal', 70.0, 100;
? SELECT id, name, price, ts FROM {t};
UPDATE {t} SET price = 50.0, ts = 100 WHERE id = 1;
INSERT INTO {t} SELECT 1 AS id, 'A' AS name, 30.0 AS price, 99 AS ts UNION ALL SELECT 2, 'B', 40.0, 99;
UPDATE {t} SET price = 50.0, ts = 98 WHERE id = 1;
? SELECT id, name, price, ts FROM {t};
INSERT INTO {t} SELECT 1 AS id, 'A' AS name, 30.0 AS price, 101 AS ts UNION ALL SELECT 2, 'B', 40.0, 101;
UPDATE {t} SET price = 50.0, ts = 102 WHERE id = 1;
? SELECT id, name, price, ts FROM {t};
! [not enough data columns] INSERT INTO {t} SELECT 1 AS id, 'A_missing_ts' AS name, 31.0 AS price;
UPDATE {t} SET price = 53.0 WHERE id = 1;
? SELECT id, name, price, ts FROM {t};
DELETE FROM {t} WHERE id = 1;
? SELECT id, name, price, ts FROM {t};

== event time, merges [version: 6, 8, 9]
% hoodie.merge.small.file.group.candidates.limit = 0
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (hoodie.write.table.version = {version}, type = 'mor', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (0, 'A0', 0.0, 100), (1, 'A', 10.0, 100), (2, 'B', 20.0, 100), (3, 'C', 30.0, 100), (4, 'D', 40.0, 100), (5, 'E', 50.0, 100), (6, 'F', 60.0, 100);
MERGE INTO {t} t USING (SELECT 0 AS id, 'B2' AS name, 25.0 AS price, 100L AS ts UNION ALL SELECT 1, 'B2', 25.0, 101L UNION ALL SELECT 2, 'B2', 25.0, 99L) s ON t.id = s.id WHEN MATCHED THEN DELETE;
? SELECT id, name, price, ts FROM {t};
MERGE INTO {t} t USING (SELECT 4 AS id, 'D2' AS name, 45.0 AS price, 101L AS ts UNION ALL SELECT 5, 'E2', 55.0, 99L UNION ALL SELECT 6, 'F2', 65.0, 100L) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *;
MERGE INTO {t} t USING (SELECT 7 AS id, 'G' AS name, 70.0 AS price, 99L AS ts UNION ALL SELECT 8, 'H', 80.0, 99) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts FROM {t};

== commit time, rows [kind: cow, mor] [version: 6, 9]
% hoodie.spark.sql.insert.into.operation = upsert
% hoodie.merge.small.file.group.candidates.limit = 0
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (hoodie.write.table.version = {version}, type = '{kind}', primaryKey = 'id', recordMergeMode = 'COMMIT_TIME_ORDERING');
INSERT INTO {t} SELECT 1 AS id, 'A' AS name, 10.0 AS price, 100 AS ts UNION ALL SELECT 2, 'B', 20.0, 100;
INSERT INTO {t} SELECT 1 AS id, 'A' AS name, 30.0 AS price, 99 AS ts UNION ALL SELECT 2, 'B', 40.0, 101;
UPDATE {t} SET price = 50.0, ts = 98 WHERE id = 1;
? SELECT id, name, price, ts FROM {t};
MERGE INTO {t} t USING (SELECT 2 AS id, 'B2' AS name, 25.0 AS price, 90L AS ts UNION ALL SELECT 3, 'C', 30.0, 100L) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts FROM {t};
DELETE FROM {t} WHERE id = 1;
? SELECT id, name, price, ts FROM {t};

== commit time, deletes of a merge [kind: cow, mor] [version: 6, 9]
% hoodie.spark.sql.insert.into.operation = upsert
% hoodie.merge.small.file.group.candidates.limit = 0
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (hoodie.write.table.version = {version}, type = '{kind}', primaryKey = 'id', recordMergeMode = 'COMMIT_TIME_ORDERING');
INSERT INTO {t} SELECT 1 AS id, 'A' AS name, 10.0 AS price, 100 AS ts UNION ALL SELECT 2, 'B', 20.0, 100;
differs: faults-avoided.md: Deletes of a merge on tables without ordering field
MERGE INTO {t} t USING (SELECT 2 AS id, 'B2' AS name, 25.0 AS price, 1L AS ts) s ON t.id = s.id WHEN MATCHED THEN DELETE;
? SELECT id, name, price, ts FROM {t};

== some columns [kind: cow, mor] [format: avro, parquet]
% hoodie.merge.small.file.group.candidates.limit = 0
% hoodie.spark.sql.merge.into.partial.updates = true
% hoodie.logfile.data.block.format = {format}
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, _ts INT, description STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = '_ts', recordMergeMode = 'EVENT_TIME_ORDERING');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, 'a1: desc1'), (2, 'a2', 20, 1200, 'a2: desc2'), (3, 'a3', 30, 1250, 'a3: desc3');
MERGE INTO {t} t0 USING (SELECT 1 AS id, 12.0 AS price, 999 AS ts UNION SELECT 3, 25.0, 1260) s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET price = s0.price, _ts = s0.ts;
? SELECT id, name, price, _ts, description FROM {t};
MERGE INTO {t} t0 USING (SELECT 1 AS id, 'a1' AS name, 12.0 AS price, 1001 AS ts) s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET price = s0.price, _ts = s0.ts;
MERGE INTO {t} t0 USING (SELECT 1 AS id, 'a1: desc10' AS description, 1002 AS ts UNION SELECT 2, 'a2: desc20', 1300) s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET description = s0.description, _ts = s0.ts;
? SELECT id, name, price, _ts, description FROM {t};

== some columns, with inserts [kind: cow, mor]
% hoodie.merge.small.file.group.candidates.limit = 0
% hoodie.spark.sql.merge.into.partial.updates = true
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, _ts INT, description STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = '_ts');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, 'a1: desc1'), (2, 'a2', 20, 1200, 'a2: desc2');
MERGE INTO {t} t0 USING (SELECT 1 AS id, 'a1' AS name, 12 AS price, 1001 AS _ts, '' AS description UNION SELECT 4, 'a4', 70, 1270, 'a4: desc4') s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET price = s0.price, _ts = s0._ts WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, _ts, description FROM {t};
MERGE INTO {t} t0 USING (SELECT 2 AS id, 60 AS price, 1270 AS _ts, '' AS description, 'x' AS name) s0 ON t0.id = s0.id WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, _ts, description FROM {t};

== all columns, merge on read
% hoodie.merge.small.file.group.candidates.limit = 0
% hoodie.spark.sql.merge.into.partial.updates = true
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, _ts INT, description STRING) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = '_ts');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, 'a1: desc1'), (3, 'a3', 30, 1250, 'a3: desc3');
MERGE INTO {t} t0 USING (SELECT 1 AS id, 'a1' AS name, 12 AS price, 1001 AS _ts, 'a1: updated' AS description UNION SELECT 3, 'a3', 25, 1260, 'a3: updated') s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET *;
? SELECT id, name, price, _ts, description FROM {t};

== columns that there are not [kind: cow, mor]
% hoodie.merge.small.file.group.candidates.limit = 0
% hoodie.spark.sql.merge.into.partial.updates = true
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, _ts INT) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = '_ts');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000);
MERGE INTO {t} t0 USING (SELECT 1 AS id, 12.0 AS price, 1001 AS ts, 'x' AS new_col) s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET price = s0.price, _ts = s0.ts;
? SELECT id, name, price, _ts FROM {t};
! [new_col] MERGE INTO {t} USING (SELECT 1 AS id, 12.0 AS price, 1001 AS ts, 'x' AS new_col) s0 ON {t}.id = s0.id WHEN MATCHED THEN UPDATE SET price = s0.price, _ts = s0.ts, new_col = s0.new_col;

== null ordering values [kind: cow, mor]
% hoodie.spark.sql.insert.into.operation = upsert
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 10), (2, 'a2', null);
differs: faults-avoided.md: Rows without ordering value (null)
INSERT INTO {t} VALUES (1, 'b1', null), (2, 'b2', 5);
? SELECT id, name, ts FROM {t};
