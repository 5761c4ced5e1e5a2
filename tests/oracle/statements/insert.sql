# TestInsertTable TestInsertTable2 TestInsertTable5 TestBulkInsertRowWriterCommitCoverage
== a list of some columns [kind: cow, mor] [by: PARTITIONED BY (dt), ]
CREATE TABLE {t} (id INT, dt STRING, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id') {by};
INSERT INTO {t} (id, name, price, ts, dt) VALUES (1, 'a1', 10, 1000, '2025-01-01'), (2, 'a2', 20, 2000, '2025-01-02');
INSERT INTO {t} (dt, name, id, price, ts) VALUES ('2025-01-03', 'a3', 3, 30, 3000);
INSERT INTO {t} (dt, ts, name, id) VALUES ('2025-01-04', 4000, 'a4', 4);
INSERT INTO {t} (id, price, ts, dt) VALUES (5, 50.0, 5000, '2025-01-05');
INSERT INTO {t} (dt, ts, id, name) VALUES ('2025-01-06' AS dt, 6000 AS ts, 6 AS id, 'a6' AS name);
? SELECT id, name, price, ts, dt FROM {t};

== a list of columns and a partition
CREATE TABLE {t} (id BIGINT, name STRING, price DOUBLE, day STRING, hour STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'mor', preCombineField = 'name') PARTITIONED BY (day, hour);
INSERT INTO {t} (id, day, price, name, hour) VALUES (2, '01', 12.2, 'bbb', '02');
INSERT INTO {t} (id, day, price, name, hour) SELECT 1, '01' AS dt, 12.1, 'aaa', '03' AS hour;
INSERT INTO {t} PARTITION (day = '02', hour) (id, hour, price, name) VALUES (3, '01', 12.3, 'ccc');
INSERT INTO {t} PARTITION (day = '02', hour = '02') (id, price, name) VALUES (4, 12.4, 'ddd');
? SELECT id, price, name, day, hour FROM {t};
INSERT OVERWRITE {t} (id, day, price, name, hour) VALUES (2, '01', 12.2, 'bbb', '02');
? SELECT id, price, name, day, hour FROM {t};
INSERT OVERWRITE {t} PARTITION (day = '02', hour) (id, hour, price, name) VALUES (3, '01', 12.3, 'ccc');
INSERT OVERWRITE {t} PARTITION (day = '02', hour = '02') (id, price, name) VALUES (4, 12.4, 'ddd');
? SELECT id, price, name, day, hour FROM {t};

== types of properties in capitals
CREATE TABLE {t} (id STRING, name STRING, dt BIGINT, day STRING, hour INT) USING hudi TBLPROPERTIES ('primaryKey' = 'id', 'type' = 'MOR', 'preCombineField' = 'dt', 'hoodie.index.type' = 'BUCKET', 'hoodie.bucket.index.hash.field' = 'id', 'hoodie.bucket.index.num.buckets' = 4) PARTITIONED BY (day, hour);
INSERT INTO {t} SELECT '1' AS id, 'aa' AS name, 123 AS dt, '2024-02-19' AS day, 10 AS hour;
MERGE INTO {t} AS target USING (SELECT '2' AS id, 'bb' AS name, 456L AS dt, '2024-02-19' AS day, 10 AS hour) AS source ON target.id = source.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
? SELECT id, name, dt, day, hour FROM {t} LIMIT 10;

== values, the partition last [kind: cow, mor]
CREATE TABLE {t} (id INT, dt STRING, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, "2021-01-05"), (2, 'a2', 20, 2000, "2021-01-06"), (3, 'a3', 30, 3000, "2021-01-07");
? SELECT id, name, price, ts, dt FROM {t} WHERE year(dt) > '2020' AND lower(name) > 'a0';

== static partitions [kind: cow, mor]
CREATE TABLE {t} (id INT, dt STRING, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}') PARTITIONED BY (dt);
INSERT INTO {t} PARTITION (dt = '2021-01-05') SELECT 1 AS id, 'a1' AS name, 10 AS price, 1000 AS ts;
INSERT INTO {t} PARTITION (dt = '2021-01-06') SELECT 20 AS price, 2000 AS ts, 2 AS id, 'a2' AS name;
INSERT INTO {t} SELECT 3, 'a3', 30, 3000, '2021-01-07';
? SELECT id, name, price, ts, dt FROM {t};

== dynamic partitions [kind: cow, mor]
CREATE TABLE {t} (id INT, dt STRING, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}') PARTITIONED BY (dt);
INSERT INTO {t} PARTITION (dt) SELECT 1 AS id, '2021-01-05' AS dt, 'a1' AS name, 10 AS price, 1000 AS ts;
INSERT INTO {t} SELECT 2 AS id, 'a2' AS name, 20 AS price, 2000 AS ts, '2021-01-06' AS dt;
INSERT INTO {t} SELECT 3, 'a3', 30, 3000, '2021-01-07';
? SELECT id, name, price, ts, dt FROM {t};

== two partition columns [kind: cow, mor]
CREATE TABLE {t} (id INT, dt STRING, name STRING, price DOUBLE, ht STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}') PARTITIONED BY (dt, ht);
INSERT INTO {t} PARTITION (dt, ht) SELECT 1 AS id, 'a1' AS name, 10 AS price, '20210101' AS dt, 1000 AS ts, '01' AS ht;
INSERT INTO {t} PARTITION (dt = '20210102', ht) SELECT 2 AS id, 'a2' AS name, 20 AS price, 2000 AS ts, '02' AS ht;
INSERT INTO {t} PARTITION (dt, ht = '03') SELECT 3 AS id, 'a3' AS name, 30 AS price, 3000 AS ts, '20210103' AS dt;
INSERT INTO {t} SELECT 4, 'a4', 40, 4000, '20210104', '04';
? SELECT id, name, price, ts, dt, ht FROM {t};

== types of partition columns [type: STRING, INT, BIGINT]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, dt {type}) USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (dt);
INSERT INTO {t} PARTITION (dt = 1000) SELECT 1, 'a1', 10;
INSERT OVERWRITE {t} PARTITION (dt = 1000) SELECT 1, 'a1', 10;
INSERT INTO {t} SELECT 2, 'a2', 10, 1000;
? SELECT id, name, price, cast(dt AS STRING) FROM {t};

== times as partition columns [type: TIMESTAMP, DATE] [logical: false, true]
% hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled = {logical}
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, dt {type}) USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (dt);
INSERT INTO {t} PARTITION (dt = '2021-05-20') SELECT 1, 'a1', 10;
INSERT OVERWRITE {t} PARTITION (dt = '2021-05-20') SELECT 1, 'a1', 10;
INSERT INTO {t} SELECT 2, 'a2', 10, {type} '2021-05-20';
? SELECT id, name, price, cast(dt AS STRING) FROM {t};

== timestamps as texts in partition columns
% hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled = true
differs: deliberate.md: Timestamps as texts in record keys
CREATE TABLE {t} (id INT, name STRING, dt TIMESTAMP) USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (dt);
INSERT INTO {t} SELECT 2, 'a2', TIMESTAMP '2021-05-20';
? SELECT id, name, cast(dt AS STRING), _hoodie_partition_path FROM {t};

== several types of partition columns at once
CREATE TABLE {t} (id INT, b BOOLEAN, f FLOAT, y BYTE, h SHORT, d DECIMAL(10, 5), a DATE, s STRING, m TIMESTAMP) USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (b, f, y, h, d, a, s, m);
INSERT INTO {t} VALUES (1, TRUE, CAST(1.0 AS FLOAT), 1, 1, 1234.56789, DATE '2021-01-05', 'partition1', TIMESTAMP '2021-01-05 10:00:00'), (2, FALSE, CAST(2.0 AS FLOAT), 2, 2, 6789.12345, DATE '2021-01-06', 'partition2', TIMESTAMP '2021-01-06 11:00:00');
? SELECT id, b FROM {t};
? SELECT id, f, y, h, d, a, s, m FROM {t};

== numbers of columns that do not fit
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (dt);
! [too many data columns] INSERT INTO {t} PARTITION (dt = '2021-06-20') SELECT 1, 'a1', 10, '2021-06-20';
! [not enough data columns] INSERT INTO {t} SELECT 1, 'a1', 10;
! [too many data columns] INSERT INTO {t} PARTITION (dt = '2021-06-20') SELECT 1 AS id, 'a1' AS name, 10 AS price, 'x' AS more;
? SELECT count(*) FROM {t};

== strict mode and bulk inserts
% hoodie.sql.bulk.insert.enable = true
% hoodie.sql.insert.mode = strict
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
! [strict, bulk] INSERT INTO {t} VALUES (1, 'a1', 1000);

== a key generator that the partitions contradict
% hoodie.sql.bulk.insert.enable = true
% hoodie.sql.insert.mode = non-strict
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, dt STRING, pt STRING) USING hudi TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts', hoodie.table.keygenerator.class = 'org.apache.hudi.keygen.ComplexAvroKeyGenerator', hoodie.datasource.write.keygenerator.class = 'org.apache.hudi.keygen.ComplexAvroKeyGenerator') PARTITIONED BY (dt, pt);
INSERT INTO {t} VALUES (1, 'a', 31, 1000, '2021-01-05', 'A'), (2, 'b', 18, 1000, '2021-01-05', 'A');
? SELECT id, name, price, ts, dt, pt FROM {t};
? SELECT DISTINCT _hoodie_partition_path, _hoodie_record_key FROM {t};

== partition columns that files lack [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = '{kind}', hoodie.datasource.write.drop.partition.columns = 'true');
INSERT INTO {t} PARTITION (dt = '2021-12-25') VALUES (1, 'a1', 10, 1000);
INSERT INTO {t} PARTITION (dt = '2021-12-25') VALUES (2, 'a2', 20, 1000);
? SELECT id, name, price, ts, dt FROM {t};

== a field of a struct as record key [kind: cow, mor]
CREATE TABLE {t} (name STRING, price DOUBLE, ts LONG, dt STRING, user STRUCT<id: STRING, name: STRING>) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (type = '{kind}', primaryKey = 'user.id', preCombineField = 'ts');
INSERT INTO {t} SELECT 'a1', 10, 1000, named_struct('id', '1', 'name', 'n'), '2021-12-25';
? SELECT name, price, ts, user.id, dt, _hoodie_record_key FROM {t};

== a name of three parts
CREATE TABLE spark_catalog.default.{t} (id INT, name STRING, ts LONG, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (dt);
INSERT INTO spark_catalog.default.{t} SELECT 1 AS id, 'a1' AS name, 1000 AS ts, '2021-01-05' AS dt;
INSERT INTO spark_catalog.default.{t} PARTITION (dt = '2021-01-05') SELECT 2 AS id, 'a2' AS name, 1000 AS ts;
? SELECT id, name, ts, dt FROM spark_catalog.default.{t};

== a name in capitals
CREATE TABLE H_{t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') LOCATION '{path}/h';
INSERT INTO H_{t} VALUES (1, 'a1');
? SELECT id, name FROM H_{t};
DROP TABLE H_{t};

== empty ordering fields
% hoodie.datasource.write.operation = insert
CREATE TABLE {t} (id INT, name STRING, price DOUBLE) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} SELECT 1, 'name1', 11;
INSERT OVERWRITE TABLE {t} SELECT 2, 'name2', 12;
INSERT INTO {t} SELECT 3, 'name3', 13;
? SELECT id, name, price FROM {t};

== generated keys
CREATE TABLE {t} (id INT, dt STRING, name STRING, price DOUBLE, ts LONG) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (type = 'mor');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, "2021-01-05"), (2, 'a2', 20, 2000, "2021-01-06");
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, "2021-01-05");
? SELECT id, name, price, ts, dt FROM {t};
? SELECT count(DISTINCT _hoodie_record_key) FROM {t};

== metadata of commits
% hoodie.datasource.write.commitmeta.key.prefix = commit_extra_meta_
% commit_extra_meta_a = valA
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1');
? SELECT id, name FROM {t};

== overwriting by the partitions of the rows [op: bulk_insert, insert]
% hoodie.spark.sql.insert.into.operation = {op}
% hoodie.datasource.overwrite.mode = dynamic
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', '2024-01-01'), (2, 'a2', '2024-01-02');
INSERT OVERWRITE TABLE {t} PARTITION (dt) SELECT 1 AS id, 'a1_new' AS name, '2024-01-01' AS dt UNION ALL SELECT 3, 'a3', '2024-01-01';
? SELECT id, name, dt FROM {t};
INSERT OVERWRITE TABLE {t} VALUES (7, 'a7', '2024-01-02');
? SELECT id, name, dt FROM {t};

== overwriting a table without partitions [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000), (2, 'a2', 20, 1000);
INSERT OVERWRITE TABLE {t} SELECT 3, 'a3', 30, 1000;
? SELECT id, name, price, ts FROM {t};
INSERT OVERWRITE {t} SELECT id + 1, name, price, ts FROM {t};
? SELECT id, name, price, ts FROM {t};

== timestamps and dates in a session of Java's newer classes [java8: true, false]
% spark.sql.datetime.java8API.enabled = {java8}
CREATE TABLE {t} (id INT, name STRING, dt TIMESTAMP, d DATE) USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (d);
INSERT INTO {t} VALUES (1, 'a1', TIMESTAMP '2021-05-20 15:00:00', DATE '2021-05-20');
? SELECT id, name, cast(dt AS STRING), cast(d AS STRING), _hoodie_partition_path FROM {t};

== codecs [codec: UNCOMPRESSED, SNAPPY, GZIP, ZSTD]
% hoodie.parquet.compression.codec = {codec}
CREATE TABLE {t} (id INT, name STRING, price DOUBLE) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1', 10);
? SELECT id, name, price FROM {t};

== values that do not fit
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (dt);
! [price] INSERT INTO {t} SELECT 1, 'a1', array(1), '2021';
! [id] INSERT INTO {t} SELECT 'x1' || uuid(), 'a1', 10, map('a', 1) FROM range(1) WHERE id = 0;
INSERT INTO {t} SELECT 1, 2, 3, 4;
? SELECT id, name, price, dt FROM {t};

== null keys and partitions [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, null, null), (2, 'a2', ''), (3, '', 'x');
? SELECT id, name, dt, _hoodie_partition_path FROM {t};
! [id] INSERT INTO {t} VALUES (cast(null AS INT), 'a3', 'x');
? SELECT count(*) FROM {t};

== nested values [kind: cow, mor]
CREATE TABLE {t} (id INT, a ARRAY<STRUCT<x: INT, y: ARRAY<STRING>>>, m MAP<STRING, STRUCT<k: INT>>, s STRUCT<b: STRUCT<c: DECIMAL(10, 2)>>, ts LONG) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} SELECT 1, array(struct(1, array('p', null))), map('q', struct(2)), struct(struct(1.5)), 1000;
UPDATE {t} SET ts = 1001, s = struct(struct(2.5)) WHERE s.b.c = 1.5;
? SELECT id, a[0].y[0], m['q'].k, s.b.c, ts FROM {t} WHERE a[0].x = 1;
