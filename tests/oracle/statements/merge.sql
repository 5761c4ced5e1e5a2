# TestMergeIntoTable TestMergeIntoTable2 TestMergeIntoTable3 TestMergeIntoLogOnlyTable TestMergeIntoTableWithNonRecordKeyField TestMergeIntoPartitionFieldResolution TestMergeIntoWriteCoverage
== in several steps [kind: cow, mor] [optimized: true, false]
% hoodie.payload.combined.schema.validate = false
% hoodie.spark.sql.optimized.writes.enable = {optimized}
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT, partition STRING) USING hudi PARTITIONED BY (partition) TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts');
MERGE INTO {t} USING (SELECT 1 AS id, 'a1' AS name, 10 AS price, 1000 AS ts, 'p1' AS partition, '1' AS flag UNION SELECT 2, 'a2', 20, 1000, 'p2', '1' UNION SELECT 3, 'a3', 30, 1000, 'p3', '1') s0 ON s0.id = {t}.id WHEN MATCHED AND flag = '1' THEN UPDATE SET id = s0.id, name = s0.name, price = s0.price, ts = s0.ts WHEN NOT MATCHED AND flag = '1' THEN INSERT *;
? SELECT id, name, price, ts, partition FROM {t};
MERGE INTO {t} USING (SELECT 1 AS id, 'a1' AS name, 10 AS price, 1002 AS ts, 'p1' AS partition UNION ALL SELECT 4, 'a4', 40, 1001, 'p4') s0 ON s0.id = {t}.id WHEN MATCHED THEN UPDATE SET id = s0.id, name = s0.name, price = s0.price, ts = s0.ts WHEN NOT MATCHED AND s0.id % 2 = 0 THEN INSERT *;
? SELECT id, name, price, ts, partition FROM {t};
MERGE INTO {t} USING (SELECT 1 AS id, 'a1' AS name, 12 AS price, 1003 AS ts, 'p1' AS partition) s0 ON s0.id = {t}.id WHEN MATCHED AND s0.id != 1 THEN UPDATE SET id = s0.id, name = s0.name, price = s0.price, ts = s0.ts WHEN MATCHED AND s0.id = 1 THEN DELETE WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts, partition FROM {t};

== other names in the source, and values of the table
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT, partition STRING) USING hudi PARTITIONED BY (partition) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, 'p1'), (2, 'a2', 20, 1000, 'p2');
MERGE INTO {t} USING (SELECT 1 AS _id, 'a1' AS name, 10 AS _price, 1001 AS _ts, 'p1' AS partition) s0 ON s0._id = {t}.id WHEN MATCHED THEN UPDATE SET id = s0._id, name = s0.name, price = s0._price + {t}.price, ts = s0._ts;
? SELECT id, name, price, ts, partition FROM {t};

== several updates
CREATE TABLE {t} (id INT, name STRING, data INT, country STRING, ts INT) USING hudi TBLPROPERTIES (type = 'cow', primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (country);
MERGE INTO {t} AS target USING (SELECT 1 AS id, 'lb' AS name, 6 AS data, 'shu' AS country, 43193 AS ts) source ON source.id = target.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
MERGE INTO {t} AS target USING (SELECT 1 AS id, 'lb' AS name, 5 AS data, 'shu' AS country, 43196 AS ts) source ON source.id = target.id WHEN MATCHED AND source.data > target.data THEN UPDATE SET target.data = source.data, target.ts = source.ts WHEN MATCHED AND source.data = 5 THEN UPDATE SET target.data = source.data, target.ts = source.ts WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, data, country, ts FROM {t};

== with a global index [kind: cow, mor] [index: GLOBAL_BLOOM, GLOBAL_SIMPLE]
% hoodie.index.type = {index}
CREATE TABLE {t} (id INT, version INT, name STRING, inc_day STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id') PARTITIONED BY (inc_day);
MERGE INTO {t} AS target USING (SELECT 1 AS id, 1 AS version, 'str_1' AS name, '2023-10-01' AS inc_day) source ON source.id = target.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
MERGE INTO {t} AS target USING (SELECT 1 AS id, 2 AS version, 'str_2' AS name, '2023-10-01' AS inc_day) source ON source.id = target.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
? SELECT id, version, name, inc_day FROM {t};
MERGE INTO {t} AS target USING (SELECT 1 AS id, 2 AS version, 'str_2' AS name, '2023-10-02' AS inc_day) source ON source.id = target.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
? SELECT id, version, name, inc_day FROM {t};

== moving rows
% hoodie.index.type = GLOBAL_SIMPLE
% hoodie.simple.index.update.partition.path = true
CREATE TABLE {t} (id INT, version INT, mergeCond STRING, partition STRING) USING hudi PARTITIONED BY (partition) TBLPROPERTIES ('primaryKey' = 'id', 'type' = 'cow', 'payloadClass' = 'org.apache.hudi.common.model.DefaultHoodieRecordPayload', 'payloadType' = 'CUSTOM', preCombineField = 'version');
INSERT INTO {t} VALUES (1, 1, 'insert', '2023-10-01'), (2, 1, 'insert', '2023-10-01'), (3, 1, 'insert', '2023-10-01'), (4, 1, 'insert', '2023-10-01'), (5, 1, 'insert', '2023-10-01'), (6, 1, 'insert', '2023-10-01');
MERGE INTO {t} t USING (SELECT * FROM VALUES (1, 2, 'yes', '2023-10-02'), (2, 2, 'no', '2023-10-02'), (3, 2, 'yes', '2023-10-01'), (4, 2, 'no', '2023-10-01'), (5, 2, 'delete', '2023-10-02'), (6, 2, 'delete', '2023-10-01'), (7, 1, 'insert', '2023-10-01') AS v(id, version, mergeCond, partition)) AS s ON t.id = s.id WHEN MATCHED AND s.mergeCond = 'yes' THEN UPDATE SET * WHEN MATCHED AND s.mergeCond = 'delete' THEN DELETE WHEN NOT MATCHED THEN INSERT *;
? SELECT id, version, _hoodie_partition_path FROM {t};

== rows that stay, in logs
% hoodie.index.type = GLOBAL_SIMPLE
% hoodie.simple.index.update.partition.path = false
CREATE TABLE {t} (id INT, version INT, mergeCond STRING, partition STRING) USING hudi PARTITIONED BY (partition) TBLPROPERTIES ('primaryKey' = 'id', 'type' = 'mor', 'payloadClass' = 'org.apache.hudi.common.model.DefaultHoodieRecordPayload', 'payloadType' = 'CUSTOM', preCombineField = 'version');
INSERT INTO {t} VALUES (1, 1, 'insert', '2023-10-01'), (2, 1, 'insert', '2023-10-01'), (3, 1, 'insert', '2023-10-01'), (4, 1, 'insert', '2023-10-01'), (5, 1, 'insert', '2023-10-01'), (6, 1, 'insert', '2023-10-01');
MERGE INTO {t} t USING (SELECT * FROM VALUES (1, 2, 'yes', '2023-10-02'), (2, 2, 'no', '2023-10-02'), (3, 2, 'yes', '2023-10-01'), (4, 2, 'no', '2023-10-01'), (5, 2, 'delete', '2023-10-02'), (6, 2, 'delete', '2023-10-01'), (7, 1, 'insert', '2023-10-01') AS v(id, version, mergeCond, partition)) AS s ON t.id = s.id WHEN MATCHED AND s.mergeCond = 'yes' THEN UPDATE SET * WHEN MATCHED AND s.mergeCond = 'delete' THEN DELETE WHEN NOT MATCHED THEN INSERT *;
differs: faults-avoided.md: An upsert of rows that stay in their partition
? SELECT id, version, _hoodie_partition_path FROM {t};

== ignored rows
% hoodie.payload.combined.schema.validate = true
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
CREATE TABLE {t2} (id INT, name STRING, price DOUBLE, ts INT) USING parquet;
INSERT INTO {t2} VALUES (1, 'a1', 10, 1000), (2, 'a2', 11, 1000);
MERGE INTO {t} AS t0 USING (SELECT * FROM {t2}) AS s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s0.name = 'a1' THEN INSERT *;
? SELECT id, name, price, ts FROM {t};
INSERT INTO {t} SELECT 3, 'a3', 12, 1000;
MERGE INTO {t} AS t0 USING (SELECT 1 AS s_id, 'a1' AS name, 20 AS price, 1001 AS ts UNION ALL SELECT 3, 'a3', 20, 1003 UNION ALL SELECT 4, 'a4', 10, 1004) s0 ON s0.s_id = t0.id WHEN MATCHED AND s0.ts = 1001 THEN UPDATE SET id = s0.s_id, name = t0.name, price = s0.price, ts = s0.ts;
? SELECT id, name, price, ts FROM {t};

== merge on read, by conditions
% hoodie.merge.small.file.group.candidates.limit = 0
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT, dt STRING) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (dt);
MERGE INTO {t} AS t0 USING (SELECT 1 AS id, 'a1' AS name, 10 AS price, 1000 AS ts, '2021-03-21' AS dt) AS s0 ON t0.id = s0.id WHEN NOT MATCHED AND s0.id % 2 = 1 THEN INSERT *;
MERGE INTO {t} AS t0 USING (SELECT 1 AS _id, 'a1' AS name, 12 AS _price, 1001 AS _ts, '2021-03-21' AS dt) AS s0 ON t0.id = s0._id WHEN MATCHED AND s0._id % 2 = 0 THEN UPDATE SET id = s0._id, name = s0.name, price = s0._price, ts = s0._ts, dt = s0.dt;
? SELECT id, name, price, dt FROM {t};
MERGE INTO {t} AS t0 USING (SELECT 1 AS _id, 'a1' AS name, 12 AS _price, 1001 AS _ts, '2021-03-21' AS dt) AS s0 ON t0.id = s0._id WHEN MATCHED AND s0._id % 2 = 1 THEN UPDATE SET id = s0._id, name = s0.name, price = s0._price, ts = s0._ts, dt = s0.dt;
MERGE INTO {t} AS t0 USING (SELECT 2 AS id, 'a2' AS name, 10 AS price, 1000 AS ts, '2021-03-21' AS dt) AS s0 ON t0.id = s0.id WHEN NOT MATCHED AND s0.id % 2 = 0 THEN INSERT *;
? SELECT id, name, price, dt FROM {t};
MERGE INTO {t} t0 USING (SELECT 2 AS s_id, 'a2' AS s_name, 15 AS s_price, 1001 AS s_ts, '2021-03-21' AS dt) s0 ON t0.id = s0.s_id WHEN MATCHED AND s_ts = 1001 THEN UPDATE SET id = s_id, name = s_name, price = s_price, ts = s_ts, t0.dt = s0.dt;
? SELECT id, name, price, dt FROM {t};
MERGE INTO {t} t0 USING (SELECT 2 AS s_id, 'a2' AS s_name, 15 AS s_price, 1001 AS ts, '2021-03-21' AS dt) s0 ON t0.id = s0.s_id WHEN MATCHED AND s0.ts = 1001 THEN DELETE;
? SELECT id, name, price, dt FROM {t};

== inserts alone
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, dt STRING) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'id') PARTITIONED BY (dt);
INSERT INTO {t} SELECT 1, 'a1', 10, '2021-03-21';
MERGE INTO {t} AS t0 USING (SELECT 2 AS id, 'a2' AS name, 10 AS price, 1000 AS ts, '2021-03-20' AS dt) s0 ON s0.id = t0.id WHEN NOT MATCHED AND s0.id % 2 = 0 THEN INSERT (id, name, price, dt) VALUES (s0.id, s0.name, s0.price, s0.dt);
MERGE INTO {t} AS t0 USING (SELECT 3 AS id, 'a3' AS name, 10 AS price, 1000 AS ts, '2021-03-20' AS dt) s0 ON s0.id = t0.id WHEN NOT MATCHED AND s0.id % 2 = 0 THEN INSERT (id, name, price, dt) VALUES (s0.id, s0.name, s0.price, s0.dt);
? SELECT id, name, price, dt FROM {t};

== ordering values [kind: cow, mor]
% hoodie.merge.small.file.group.candidates.limit = 0
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, v INT, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'v', hoodie.compaction.payload.class = 'org.apache.hudi.common.model.DefaultHoodieRecordPayload') PARTITIONED BY (dt);
MERGE INTO {t} AS t0 USING (SELECT 1 AS id, 'a1' AS name, 10 AS price, 1001 AS v, '2021-03-21' AS dt) AS s0 ON t0.id = s0.id WHEN NOT MATCHED AND s0.id % 2 = 1 THEN INSERT *;
MERGE INTO {t} AS t0 USING (SELECT 1 AS id, 'a1' AS name, 11 AS price, 1000 AS v, '2021-03-21' AS dt) AS s0 ON t0.id = s0.id WHEN MATCHED AND s0.id % 2 = 1 THEN UPDATE SET *;
? SELECT id, name, price, dt, v FROM {t};
MERGE INTO {t} AS t0 USING (SELECT 1 AS id, 'a1' AS name, 12 AS price, 1002 AS v, '2021-03-21' AS dt) AS s0 ON t0.id = s0.id WHEN MATCHED AND s0.id % 2 = 1 THEN UPDATE SET *;
? SELECT id, name, price, dt, v FROM {t};

== expressions of the ordering value [kind: cow, mor]
% hoodie.merge.small.file.group.candidates.limit = 0
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, v INT, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', orderingFields = 'v') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, '2021-03-21');
MERGE INTO {t} AS t0 USING (SELECT 1 AS id, 'a1' AS name, 11 AS price, 999 AS v, '2021-03-21' AS dt) AS s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET id = s0.id, name = s0.name, price = s0.price * 2, v = s0.v + 2, dt = s0.dt;
? SELECT id, name, price, dt, v FROM {t};
MERGE INTO {t} AS t0 USING (SELECT 1 AS s_id, 'a1' AS s_name, 12 AS s_price, 1000 AS v, '2021-03-21' AS dt) AS s0 ON t0.id = s0.s_id WHEN MATCHED THEN UPDATE SET id = s0.s_id, name = s0.s_name, price = s0.s_price * 2, v = s0.v + 2, dt = s0.dt;
? SELECT id, name, price, dt, v FROM {t};

== expressions of the key
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, v INT, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'v') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (3, 'a3', 30, 3000, '2021-03-21'), (2, 'a2', 20, 2000, '2021-03-21'), (1, 'a1', 10, 1000, '2021-03-21');
MERGE INTO {t} t0 USING (SELECT 2 AS id, 'a2' AS name, 20 AS price, 2000 AS v, '2021-03-21' AS dt) s0 ON t0.id = s0.id WHEN MATCHED THEN DELETE;
? SELECT id, name, price, v, dt FROM {t};
MERGE INTO {t} t0 USING (SELECT 3 AS s_id, 'a3' AS s_name, 30 AS s_price, 3000 AS v, '2021-03-21' AS dt) s0 ON t0.id = s0.s_id WHEN MATCHED THEN DELETE;
? SELECT id, name, price, v, dt FROM {t};

== ON an expression of the source [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, v INT, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', orderingFields = 'v') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (3, 'a3', 30, 3000, '2021-03-21'), (2, 'a2', 20, 2000, '2021-03-21'), (1, 'a1', 10, 1000, '2021-03-21');
differs: deliberate.md: ON that compares a record key column with an expression of the source
! [] MERGE INTO {t} t0 USING (SELECT 1 AS id, 1001 AS v, '2021-03-21' AS dt) s0 ON t0.id = s0.id + 1 WHEN MATCHED THEN DELETE;

== deletes without ordering values
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, v INT, dt STRING) USING hudi TBLPROPERTIES (type = 'cow', primaryKey = 'id', orderingFields = 'v') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (3, 'a3', 30, 3000, '2021-03-21'), (2, 'a2', 20, 2000, '2021-03-21'), (1, 'a1', 10, 1000, '2021-03-21');
differs: deliberate.md: A source without the ordering field
! [] MERGE INTO {t} t0 USING (SELECT 3 AS s_id, 3000 AS s_v, '2021-03-21' AS dt) s0 ON t0.id = s0.s_id WHEN MATCHED THEN DELETE;

== an expression for ordering values that the source lacks
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, v INT, dt STRING) USING hudi TBLPROPERTIES (type = 'cow', primaryKey = 'id', orderingFields = 'v') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (3, 'a3', 30, 3000, '2021-03-21'), (2, 'a2', 20, 2000, '2021-03-21'), (1, 'a1', 10, 1000, '2021-03-21');
differs: deliberate.md: A source without the ordering field
! [] MERGE INTO {t} AS t0 USING (SELECT 1 AS s_id, 'a1' AS s_name, 12 AS s_price, 1000 AS s_v, '2021-03-21' AS dt) AS s0 ON t0.id = s0.s_id WHEN MATCHED THEN UPDATE SET id = s0.s_id, name = s0.s_name, price = s0.s_price * 2, v = s0.s_v + 2, dt = s0.dt;

== deletes, updates and inserts at once
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (dt);
CREATE TABLE {t2} (id INT, name STRING, price DOUBLE, ts LONG, dt STRING) USING parquet;
INSERT INTO {t2} VALUES (8, 's8', 80, 2008, '2021-03-21'), (9, 's9', 90, 2009, '2021-03-21'), (10, 's10', 100, 2010, '2021-03-21'), (11, 's11', 110, 2011, '2021-03-21');
INSERT INTO {t} VALUES (7, 'a7', 70, 1007, '2021-03-21'), (8, 'a8', 80, 1008, '2021-03-21'), (9, 'a9', 90, 1009, '2021-03-21'), (10, 'a10', 100, 1010, '2021-03-21');
MERGE INTO {t} AS t0 USING {t2} AS s0 ON t0.id = s0.id WHEN MATCHED AND s0.id = 10 THEN DELETE WHEN MATCHED AND s0.id < 10 THEN UPDATE SET id = s0.id, name = 'sxx', price = s0.price * 2, ts = s0.ts + 10000, dt = s0.dt WHEN NOT MATCHED AND s0.id > 10 THEN INSERT *;
? SELECT id, name, price, ts, dt FROM {t};

== one Hudi table into another [kind: cow, mor]
CREATE TABLE {t2} (id INT, name STRING, price DOUBLE, _ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = '_ts');
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, _ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = '_ts');
INSERT INTO {t2} VALUES (1, 'a1', 10, 1000);
MERGE INTO {t} t0 USING {t2} s0 ON t0.id = s0.id WHEN NOT MATCHED THEN INSERT *;
UPDATE {t2} SET price = 12, _ts = 1001 WHERE id = 1;
MERGE INTO {t} t0 USING {t2} s0 ON t0.id = s0.id WHEN MATCHED AND cast(s0._ts AS STRING) > '1000' THEN UPDATE SET *;
? SELECT id, name, price, _ts FROM {t};
INSERT INTO {t2} VALUES (2, 'a2', 10, 1001);
MERGE INTO {t} t0 USING {t2} s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED AND s0.name = 'a2' THEN INSERT *;
? SELECT id, name, price, _ts FROM {t};

== types of ordering values [type: STRING, INT, BIGINT, TIMESTAMP, DATE]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, c {type}) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'c');
MERGE INTO {t} USING (SELECT 1 AS id, 'a1' AS name, 10 AS price, cast(CASE WHEN '{type}' IN ('TIMESTAMP', 'DATE') THEN '2021-05-20' ELSE '1000' END AS {type}) AS c, '1' AS flag) s0 ON s0.id = {t}.id WHEN MATCHED AND flag = '1' THEN UPDATE SET * WHEN NOT MATCHED AND flag = '1' THEN INSERT *;
MERGE INTO {t} USING (SELECT 1 AS id, 'a1' AS name, 10 AS price, cast(CASE WHEN '{type}' IN ('TIMESTAMP', 'DATE') THEN '2021-05-20' ELSE '1000' END AS {type}) AS c) s0 ON s0.id = {t}.id WHEN MATCHED THEN UPDATE SET id = s0.id, name = s0.name, price = s0.price + {t}.price, c = s0.c WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, cast(c AS STRING) FROM {t};

== merge on read, with compaction
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT) USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'mor', preCombineField = 'ts', hoodie.compact.inline = 'true');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000);
INSERT INTO {t} VALUES (4, 'a4', 10, 1000);
MERGE INTO {t} h0 USING (SELECT 4 AS _id, 'a4' AS name, 11 AS _price, 1000 AS ts) s0 ON h0.id = s0._id WHEN MATCHED THEN UPDATE SET id = s0._id, name = s0.name, price = s0._price, ts = s0.ts;
? SELECT id, name, price, ts FROM {t};

== nulls [type: STRING, INT, DOUBLE, TIMESTAMP, DATE, DECIMAL]
CREATE TABLE {t} (id INT, name STRING, value {type}, ts INT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
MERGE INTO {t} h0 USING (SELECT 1 AS id, 'a1' AS name, cast(null AS {type}) AS value, 1000 AS ts) s0 ON h0.id = s0.id WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, value, ts FROM {t};

== complex types
% hoodie.merge.small.file.group.candidates.limit = 0
CREATE TABLE {t} (id INT, name STRING, s_value STRUCT<f0: INT, f1: STRING>, a_value ARRAY<STRING>, m_value MAP<STRING, STRING>, ts INT) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts');
MERGE INTO {t} h0 USING (SELECT 1 AS id, 'a1' AS name, struct(1, '10') AS s_value, split('a0,a1', ',') AS a_value, map('k0', 'v0') AS m_value, 1000 AS ts) s0 ON h0.id = s0.id WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, s_value, a_value, m_value, ts FROM {t};
MERGE INTO {t} h0 USING (SELECT 1 AS id, 'a1' AS name, struct(1, '12') AS s_value, split('a0,a1,a2', ',') AS a_value, map('k1', 'v1') AS m_value, 1000 AS ts) s0 ON h0.id = s0.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, s_value, a_value, m_value, ts FROM {t};

== columns by name
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} SELECT 1, 'a1', 1, 10, '2021-03-21';
MERGE INTO {t} AS t0 USING (SELECT 1 AS id, 'a1' AS name, 97 AS price, 1002 AS ts, '2021-05-05' AS dt UNION ALL SELECT 1, 'a2', 98, 1003, '2021-05-05' UNION ALL SELECT 2, 'a3', 99, 1001, '2021-05-05') AS s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts, dt FROM {t};
MERGE INTO {t} AS t0 USING (SELECT 1 AS id, 'a1' AS name, 1004 AS ts, '2021-05-05' AS dt, 100 AS price UNION ALL SELECT 2, 'a5', 1000, '2021-05-05', 101 UNION ALL SELECT 3, 'a3', 1000, '2021-05-05', 102) AS s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET t0.name = s0.name, t0.ts = s0.ts, t0.dt = s0.dt, t0.price = s0.price WHEN NOT MATCHED THEN INSERT (id, name, ts, dt, price) VALUES (s0.id, s0.name, s0.ts, s0.dt, s0.price);
? SELECT id, name, price, ts, dt FROM {t};
MERGE INTO {t} AS t0 USING (SELECT 1 AS id, 'a6' AS name, 106 AS price, 1006 AS ts, '2021-05-05' AS dt, '0' AS flag UNION ALL SELECT 4, 'a4', 100, 1000, '2021-05-06', '1') AS s0 ON t0.id = s0.id WHEN MATCHED AND flag = '1' THEN UPDATE SET * WHEN NOT MATCHED AND flag = '1' THEN INSERT *;
? SELECT id, name, price, ts, dt FROM {t};

== names of columns after the source
differs: deliberate.md: Names of columns after the source of MERGE
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
! [] MERGE INTO {t} USING (SELECT 1, 'a1', 10, 1000, '1') s0(id, name, price, ts, flag) ON s0.id = {t}.id WHEN NOT MATCHED AND flag = '1' THEN INSERT *;

== inserts of a source with history
CREATE TABLE {t} (id1 INT, id2 INT, name STRING, price DOUBLE, ts INT) USING hudi TBLPROPERTIES (primaryKey = 'id1,id2', preCombineField = 'ts');
INSERT INTO {t} SELECT 1, 1, 'a1', 1, 10;
MERGE INTO {t} AS t0 USING (SELECT 1 AS id1, 1 AS id2, 'a1' AS name, 11 AS price, 110 AS ts UNION ALL SELECT 1, 2, 'a2', 10, 100) AS s0 ON t0.id1 = s0.id1 AND t0.id2 = s0.id2 WHEN NOT MATCHED THEN INSERT *;
? SELECT id1, id2, name, price, ts FROM {t};

== text for a double
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (dt);
INSERT INTO {t} SELECT 1, 'a1', cast(10.0 AS DOUBLE), 999, '2021-03-21';
MERGE INTO {t} AS t0 USING (SELECT 'a1' AS name, 1 AS id, '10.1' AS price, 1000 AS ts, '2021-03-21' AS dt) AS s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET t0.price = s0.price, t0.ts = s0.ts WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, dt FROM {t};

== rows of one key in the source [kind: cow, mor]
% hoodie.merge.small.file.group.candidates.limit = 0
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (dt);
MERGE INTO {t} AS t0 USING (SELECT 1 AS id, 'a1' AS name, 10.1 AS price, 1000 AS ts, '2021-03-21' AS dt UNION ALL SELECT 1, 'a2', 10.2, 1002, '2021-03-21') AS s0 ON t0.id = s0.id WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts, dt FROM {t};
MERGE INTO {t} AS t0 USING (SELECT 1 AS id, 'a1_new' AS name, 10.1 AS price, 1003 AS ts, '2021-03-21' AS dt UNION ALL SELECT 3, 'a3', 10.3, 1003, '2021-03-21' UNION ALL SELECT 3, 'a3', 10.3, 1003, '2021-03-21') AS s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts, dt FROM {t};

== functions such as nvl
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, '2021-03-21'), (3, 'a3', 10, 2000, '2021-03-21');
MERGE INTO {t} AS t0 USING (SELECT 1 AS id, 'a1' AS name, 10.1 AS price, 1003 AS ts, '2021-03-21' AS dt) AS s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET t0.ts = s0.ts, t0.price = if(nvl(s0.price, 0) <> nvl(t0.price, 0), s0.price, t0.price) WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts, dt FROM {t};

== by key and partition
CREATE TABLE {t} (id INT, name STRING, ts INT, dt STRING) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'd1', 11, '2022-09-26'), (2, 'd2', 12, '2022-09-26');
MERGE INTO {t} h0 USING (SELECT * FROM VALUES (1, 'a1', 11, '2022-09-26'), (2, 'a2', 12, '2022-09-27') AS v(id, name, ts, dt)) s0 ON h0.id = s0.id AND h0.dt = s0.dt WHEN MATCHED THEN UPDATE SET *;
? SELECT id, name, ts, dt FROM {t};
? SHOW PARTITIONS {t};

== assignments that are missing [kind: cow, mor] [mode: COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING]
% hoodie.spark.sql.merge.into.partial.updates = false
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', orderingFields = 'ts', recordMergeMode = '{mode}') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, '2021-03-21');
! [id, assignment] MERGE INTO {t} AS t0 USING (SELECT 2 AS id, 'a2' AS name, 12 AS price, 1002 AS ts, '2021-03-21' AS dt) AS s0 ON t0.id = s0.id WHEN NOT MATCHED THEN INSERT (name, price, ts, dt) VALUES (s0.name, s0.price, s0.ts, s0.dt);
? SELECT id, name, price, ts, dt FROM {t};

== updates of one column, by mode [kind: cow, mor] [mode: COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING]
CREATE TABLE {t} (id INT, name STRING, price INT, ts BIGINT) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts', recordMergeMode = '{mode}');
INSERT INTO {t} VALUES (1, 'John Doe', 19, 1598886001), (2, 'Jane Doe', 24, 1598972400), (3, 'Bob Smith', 14, 1599058800);
MERGE INTO {t} t USING (SELECT * FROM VALUES (1, 'John Doe', 19, 1598886001L), (4, 'Bob Marley', 20, 1598900000L), (2, 'Jane Roe', 25, 1598972399L), (3, 'Bob Smyth', 15, 1599058801L) AS v(id, name, price, ts)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts FROM {t};

== another column in ON
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 10, 100), (2, 'a2', 20, 200), (3, 'a3', 20, 100);
MERGE INTO {t} AS oldData USING (SELECT * FROM VALUES (1, 'u1', 10D, 999L), (3, 'u3', 30D, 9999L), (4, 'u4', 40D, 99999L) AS v(id, name, price, ts)) n ON oldData.id = n.id WHEN MATCHED AND oldData.price = n.price THEN UPDATE SET oldData.name = n.name, oldData.ts = n.ts;
? SELECT id, name, price, ts FROM {t};
MERGE INTO {t} AS oldData USING (SELECT * FROM VALUES (1, 'u1', 10D, 999L), (3, 'u3', 30D, 9999L), (4, 'u4', 40D, 99999L) AS v(id, name, price, ts)) n ON oldData.id = n.id AND oldData.price = n.price WHEN MATCHED THEN UPDATE SET oldData.name = n.name, oldData.ts = n.ts WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts FROM {t};

== not all columns of the key
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id,name', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 10, 100), (2, 'a2', 20, 200);
MERGE INTO {t} AS t0 USING (SELECT 1 AS id, 'u1' AS name, 10D AS price, 999L AS ts) s0 ON t0.id = s0.id WHEN MATCHED THEN UPDATE SET id = t0.id, name = t0.name, price = t0.price, ts = s0.ts WHEN NOT MATCHED THEN INSERT (id, name, price, ts) VALUES (s0.id, s0.name, s0.price, s0.ts);

== without keys, by ranges
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT) USING hudi TBLPROPERTIES (preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 10, 100), (2, 'a2', 20, 100), (3, 'a3', 30, 100), (5, 'a5', 50, 100);
MERGE INTO {t} USING (SELECT 2 AS id, 'a1' AS name, 50 AS price, 999 AS ts) s0 ON {t}.price < s0.price AND {t}.id >= s0.id WHEN MATCHED THEN UPDATE SET ts = s0.ts WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts FROM {t};
MERGE INTO {t} USING (SELECT 1 AS id, 'a1' AS name, 50 AS price, 999 AS ts) s0 ON {t}.id < s0.id WHEN MATCHED THEN UPDATE SET ts = s0.ts WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts FROM {t};

== without keys, several rows of the source for one row
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT) USING hudi TBLPROPERTIES (preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 10, 100);
MERGE INTO {t} USING (SELECT 1 AS id, 'a1' AS name, 20 AS price, 200 AS ts UNION ALL SELECT 2, 'a1', 30, 100) s0 ON {t}.name = s0.name WHEN MATCHED THEN UPDATE SET price = s0.price, ts = s0.ts WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts FROM {t};

== without keys and ordering field, several rows of the source for one row
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT) USING hudi;
INSERT INTO {t} VALUES (1, 'a1', 10, 100);
differs: deliberate.md: Several rows of the source for one key
MERGE INTO {t} USING (SELECT 1 AS id, 'a1' AS name, 20 AS price, 200 AS ts UNION ALL SELECT 2, 'a1', 30, 100) s0 ON {t}.name = s0.name WHEN MATCHED THEN UPDATE SET price = s0.price, ts = s0.ts WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts FROM {t};

== without keys, in several steps
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts INT) USING hudi TBLPROPERTIES (preCombineField = 'ts');
MERGE INTO {t} USING (SELECT 1 AS id, 'a1' AS name, 10 AS price, 1000 AS ts, '1' AS flag) s0 ON s0.id = {t}.id WHEN MATCHED AND flag = '1' THEN UPDATE SET id = s0.id, name = s0.name, price = s0.price, ts = s0.ts WHEN NOT MATCHED AND flag = '1' THEN INSERT *;
MERGE INTO {t} USING (SELECT 1 AS id, 'a1' AS name, 10 AS price, 1002 AS ts UNION ALL SELECT 2, 'a2', 12, 1001) s0 ON s0.id = {t}.id WHEN MATCHED THEN UPDATE SET id = s0.id, name = s0.name, price = s0.price + {t}.price, ts = s0.ts WHEN NOT MATCHED AND s0.id % 2 = 0 THEN INSERT *;
? SELECT id, name, price, ts FROM {t};
MERGE INTO {t} USING (SELECT 1 AS id, 'a1' AS name, 12 AS price, 1003 AS ts) s0 ON s0.id = {t}.id WHEN MATCHED AND s0.id = 1 THEN DELETE WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, price, ts FROM {t};

== logs alone
differs: not-built.md: Index types
% hoodie.index.type = INMEMORY
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts', hoodie.index.type = 'INMEMORY', hoodie.compact.inline = 'true');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000), (2, 'a2', 10, 1000);
MERGE INTO {t} h0 USING (SELECT 1 AS id, 'a1' AS name, 11 AS price, 1001L AS ts) s0 ON h0.id = s0.id WHEN MATCHED THEN UPDATE SET *;
? SELECT id, name, price, ts FROM {t};
