# TestInsertTable3 TestInsertTable4 TestInsertTableWithPartitionBucketIndex
== a simple bucket index [kind: cow, mor] [op: upsert, bulk_insert]
% hoodie.datasource.write.operation = {op}
CREATE TABLE {t} (id INT, dt STRING, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id,name', type = '{kind}', preCombineField = 'ts', hoodie.index.type = 'BUCKET', hoodie.bucket.index.hash.field = 'id,name') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1,1', 10, 1000, "2021-01-05"), (2, 'a2', 20, 2000, "2021-01-06"), (3, 'a3,3', 30, 3000, "2021-01-07");
? SELECT id, name, price, ts, dt, _hoodie_record_key FROM {t};

== upserts with a bucket index
% hoodie.spark.sql.insert.into.operation = upsert
CREATE TABLE {t} (id INT, dt STRING, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id,name', preCombineField = 'ts', hoodie.index.type = 'BUCKET', hoodie.bucket.index.hash.field = 'id,name') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1,1', 1000, "2021-01-05"), (2, 'a2', 2000, "2021-01-06");
INSERT INTO {t} VALUES (1, 'a1,1', 1001, "2021-01-05"), (1, 'a1', 1, "2021-01-05");
? SELECT id, name, ts, dt FROM {t};

== several bulk inserts into buckets, merge on read
% hoodie.datasource.write.operation = bulk_insert
CREATE TABLE {t} (id INT, dt STRING, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id,name', type = 'mor', preCombineField = 'ts', hoodie.index.type = 'BUCKET', hoodie.bucket.index.hash.field = 'id,name') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1,1', 1000, "2021-01-05"), (3, 'a3,3', 3000, "2021-01-07");
INSERT INTO {t} VALUES (1, 'a1', 1000, "2021-01-05"), (3, 'a3', 3000, "2021-01-07");
? SELECT id, name, ts, dt FROM {t};
? SELECT count(DISTINCT _hoodie_file_name) FROM {t} WHERE dt = '2021-01-05';

== several bulk inserts into buckets, copy on write, without Spark's rows
% hoodie.datasource.write.operation = bulk_insert
CREATE TABLE {t} (id LONG, name STRING, ts INT, par STRING) USING hudi TBLPROPERTIES (primaryKey = 'id,name', type = 'cow', preCombineField = 'ts', hoodie.index.type = 'BUCKET', hoodie.index.bucket.engine = 'SIMPLE', hoodie.bucket.index.num.buckets = '4', hoodie.bucket.index.hash.field = 'id,name', hoodie.datasource.write.row.writer.enable = 'false') PARTITIONED BY (par);
INSERT INTO {t} VALUES (5, 'a1,1', 1, 'main'), (6, 'a6,6', 1, 'main'), (9, 'a3,3', 1, 'side');
differs: faults-avoided.md: `bulk_insert` adds to the file group as `insert` does
! [] INSERT INTO {t} VALUES (9, 'a3,3', 2, 'main'), (13, 'a13,13', 1, 'side');
? SELECT id FROM {t};
INSERT OVERWRITE {t} VALUES (9, 'a3,3', 3, 'main'), (13, 'a13,13', 2, 'side');
? SELECT id FROM {t};

== overwriting a partition of buckets [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts', hoodie.index.type = 'BUCKET', hoodie.bucket.index.num.buckets = '4') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (5, 'a', 35, 1000, '2021-01-05'), (1, 'a', 31, 1000, '2021-01-05'), (3, 'a', 33, 1000, '2021-01-05');
INSERT OVERWRITE TABLE {t} PARTITION (dt = '2021-01-05') SELECT * FROM (SELECT 13, 'a2', 12, 1000) LIMIT 10;
? SELECT id, name, price, ts, dt FROM {t};

== consistent hashing [writer: true, false]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id,name', type = 'mor', preCombineField = 'ts', hoodie.index.type = 'BUCKET', hoodie.index.bucket.engine = 'CONSISTENT_HASHING', hoodie.bucket.index.hash.field = 'id,name', hoodie.datasource.write.row.writer.enable = '{writer}') PARTITIONED BY (dt);
SET hoodie.datasource.write.operation = bulk_insert;
INSERT INTO {t} VALUES (1, 'a1,1', 10, 1000, "2021-01-05"), (2, 'a1,2', 10, 1000, "2021-01-05"), (1, 'a2,1', 20, 2000, "2021-01-06");
? SELECT id, name, price, ts, dt FROM {t};
differs: faults-avoided.md: `bulk_insert` adds to the file group as `insert` does
! [] INSERT INTO {t} VALUES (1, 'a1,1', 11, 1000, "2021-01-05");
SET hoodie.datasource.write.operation = upsert;
INSERT INTO {t} VALUES (1, 'a1,1', 11, 1000, "2021-01-05"), (3, 'a2,1', 21, 2000, "2021-01-05");
RESET hoodie.datasource.write.operation;
? SELECT id, name, price, ts, dt FROM {t};

== overwriting a partition of consistent hashing, twice
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, dt STRING) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts', hoodie.index.type = 'BUCKET', hoodie.index.bucket.engine = "CONSISTENT_HASHING", hoodie.bucket.index.num.buckets = '4') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (5, 'a', 35, 1000, '2021-01-05'), (1, 'a', 31, 1000, '2021-01-05');
INSERT OVERWRITE TABLE {t} PARTITION (dt = '2021-01-05') SELECT * FROM (SELECT 13, 'a2', 12, 1000) LIMIT 10;
INSERT OVERWRITE TABLE {t} PARTITION (dt = '2021-01-05') SELECT * FROM (SELECT 13, 'a3', 12, 1000) LIMIT 10;
? SELECT id, name, price, ts, dt FROM {t};

== an index type that there is not
! [hoodie.index.type, bucket_aa] CREATE TABLE {t} (id STRING, dt BIGINT, day STRING) USING hudi OPTIONS ('hoodie.datasource.write.hive_style_partitioning' 'false') TBLPROPERTIES ('primaryKey' = 'id', 'type' = 'mor', 'preCombineField' = 'dt', 'hoodie.index.type' = 'BUCKET_aa', 'hoodie.bucket.index.hash.field' = 'id') PARTITIONED BY (day);

== pruning by buckets and partitions
CREATE TABLE {t} (id STRING, name STRING, dt BIGINT, day STRING, hour INT) USING hudi TBLPROPERTIES ('primaryKey' = 'id', 'type' = 'mor', 'preCombineField' = 'dt', 'hoodie.index.type' = 'BUCKET', 'hoodie.bucket.index.hash.field' = 'id', 'hoodie.bucket.index.num.buckets' = 16, 'hoodie.metadata.enable' = 'false') PARTITIONED BY (day, hour);
INSERT INTO {t} SELECT '1' AS id, 'aa' AS name, 123 AS dt, '2023-10-12' AS day, 10 AS hour UNION SELECT '1', 'aa', 123, '2023-10-12', 11 UNION SELECT '1', 'aa', 123, '2023-10-12', 12;
? SELECT id, name, dt, day, hour FROM {t} WHERE day = '2023-10-12' AND hour = 11;

== sort modes of bulk inserts [mode: NONE, GLOBAL_SORT, PARTITION_SORT, PARTITION_PATH_REPARTITION, PARTITION_PATH_REPARTITION_AND_SORT]
% hoodie.sql.bulk.insert.enable = true
% hoodie.sql.insert.mode = non-strict
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'name', hoodie.bulkinsert.shuffle.parallelism = 3, hoodie.bulkinsert.sort.mode = '{mode}') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (5, 'a', 35, '2021-05-21'), (1, 'a', 31, '2021-01-21'), (3, 'a', 33, '2021-03-21');
? SELECT id, name, price, dt FROM {t};

== rules for numbers of buckets [kind: cow, mor]
% hoodie.datasource.write.operation = upsert
CREATE TABLE {t} (id INT, dt STRING, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id,name', type = '{kind}', preCombineField = 'ts', hoodie.index.type = 'BUCKET', hoodie.bucket.index.hash.field = 'id,name', hoodie.bucket.index.num.buckets = 1) PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1,1', 10, 1000, "2021-01-05"), (11, 'a1,1', 10, 1000, "2021-01-05"), (2, 'a2', 20, 2000, "2021-01-06"), (22, 'a2', 20, 2000, "2021-01-06");
CALL partition_bucket_index_manager(table => '{t}', overwrite => 'dt=(2021\\-01\\-05|2021\\-01\\-07),2', rule => 'regex', bucket_number => 1);
CALL partition_bucket_index_manager(table => '{t}', overwrite => 'dt=(2021\\-01\\-05|2021\\-01\\-07),2', rule => 'regex', bucket_number => 1, dry_run => false);
? SELECT id, name, price, ts, dt FROM {t};
INSERT INTO {t} VALUES (1, 'a1,1', 100, 1000, "2021-01-05"), (3, 'a3,3', 30, 3000, "2021-01-07"), (33, 'a3,3', 30, 3000, "2021-01-07");
? SELECT id, name, price, ts, dt FROM {t};
? SELECT dt, count(DISTINCT substring(_hoodie_file_name, 1, 8)) FROM {t} GROUP BY dt;
