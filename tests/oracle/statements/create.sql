# TestCreateTable TestDropTable TestTruncateTable TestDescribeTable TestRepairTable TestHoodieCatalogDDL TestSpark3Catalog TestHoodieCatalogStagedTable
== a managed table
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (hoodie.database.name = "databaseName", hoodie.table.name = "tableName", primaryKey = 'id', preCombineField = 'ts', hoodie.datasource.write.operation = 'upsert');
INSERT INTO {t} VALUES (1, 'a', 2, 3);
INSERT INTO {t} VALUES (1, 'b', 2, 4);
? SELECT id, name, price, ts FROM {t};


== options in another case
CREATE TABLE {t} (id INT, name STRING, ts LONG, dt STRING) USING hudi PARTITIONED BY (dt) OPTIONS (PRIMARYKEY = 'id', precombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a', 2, 'x');
? SELECT _hoodie_record_key, _hoodie_partition_path, id, name, ts, dt FROM {t};

== keys of hoodie.properties [kind: COPY_ON_WRITE, MERGE_ON_READ]
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (hoodie.table.recordkey.fields = 'id', hoodie.table.type = '{kind}', hoodie.table.precombine.field = 'ts');
INSERT INTO {t} VALUES (1, 'a', 2);
UPDATE {t} SET name = 'b' WHERE id = 1;
? SELECT _hoodie_record_key, id, name, ts FROM {t};

== over an existing table
CREATE TABLE {t} (id INT, name STRING, ts LONG, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', type = 'mor') LOCATION '{path}/h0';
INSERT INTO {t} VALUES (1, 'a', 2, 'x');
CREATE TABLE {t2} USING hudi LOCATION '{path}/h0';
? SELECT id, name, ts, dt FROM {t2};
! [partition, without columns|schema is not defined] CREATE TABLE {t3} USING hudi PARTITIONED BY (dt) LOCATION '{path}/h0';
CREATE TABLE {t4} (id INT, name STRING, ts LONG, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', type = 'mor') LOCATION '{path}/h0';
INSERT INTO {t4} VALUES (2, 'b', 2, 'x');
? SELECT id, name, ts, dt FROM {t};

== a key that there is not
! [id1] CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id1', type = 'cow');

== an ordering field that there is not
! [ts1] CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts1', type = 'cow');

== a type that there is not
! [type] CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'cow1');

== as a query [kind: cow, mor]
CREATE TABLE {t} USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}') LOCATION '{path}/a' AS SELECT 1 AS id, 'a1' AS name, 10 AS price, 1000 AS ts;
? SELECT id, name, price, ts FROM {t};
CREATE TABLE {t2} USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', type = '{kind}') AS SELECT 1 AS id, 'a1' AS name, 10 AS price, '2021-04-01' AS dt;
? SELECT id, name, price, dt FROM {t2};
! [id, type null] CREATE TABLE {t3} USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', type = '{kind}') AS SELECT null AS id, 'a1' AS name, 10 AS price, '2021-05-07' AS dt;

== as a query with partitions of times [type: TIMESTAMP, DATE]
CREATE TABLE {t} USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id') AS SELECT cast('2021-05-06' AS {type}) AS dt, 1 AS id, 'a1' AS name, 10 AS price;
? SELECT id, name, price, cast(dt AS STRING) FROM {t};

== as a query, without keys
CREATE TABLE {t} USING hudi PARTITIONED BY (dt) TBLPROPERTIES (type = 'cow') AS SELECT 1 AS id, 'a1' AS name, 10 AS price, '2021-04-01' AS dt;
? SELECT id, name, price, dt FROM {t};

== as a query, with rows of one key
CREATE TABLE {t} USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts') AS SELECT * FROM (SELECT 1 AS id, 'a1' AS name, 10 AS price, 1000 AS ts UNION ALL SELECT 1 AS id, 'a1' AS name, 11 AS price, 1001 AS ts);
? SELECT id, name, price, ts FROM {t};

== as a query, names and operations among the properties [clause: TBLPROPERTIES, OPTIONS]
CREATE TABLE {t} USING hudi PARTITIONED BY (dt) {clause} (hoodie.database.name = "databaseName", hoodie.table.name = "tableName", primaryKey = 'id', preCombineField = 'ts', hoodie.datasource.write.operation = 'upsert', type = 'mor') AS SELECT 1 AS id, 'a1' AS name, 10 AS price, '2021-04-01' AS dt, 1000 AS ts;
? SELECT id, name, price, dt FROM {t};

== as a query, compaction of a copy-on-write table
differs: deliberate.md: `hoodie.compact.inline=true` with a copy-on-write table
! [] CREATE TABLE {t} USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'cow', hoodie.compact.inline = 'true') AS SELECT 1 AS id, 'a1' AS name;

== if it does not exist
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
ALTER TABLE {t} ADD COLUMNS (ts BIGINT);
CREATE TABLE IF NOT EXISTS {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
! [already exists] CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');

== like a Hudi table [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id,name', type = '{kind}') LOCATION '{path}/s';
CREATE TABLE {t2} LIKE {t} USING hudi;
! [already exists] CREATE TABLE {t2} LIKE {t} USING hudi;
CREATE TABLE IF NOT EXISTS {t2} LIKE {t} USING hudi;
INSERT INTO {t2} VALUES (1, 'a', 2, 3);
? SELECT _hoodie_record_key, id, name, price, ts FROM {t2};
CREATE TABLE {t3} LIKE {t} USING hudi LOCATION '{path}/e';
CREATE TABLE {t4} LIKE {t} USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t4} VALUES (1, 'a', 2, 3);
? SELECT _hoodie_record_key, id FROM {t4};
? SELECT count(*) FROM {t};

== like a table of another format
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, dt STRING) USING parquet TBLPROPERTIES (non.hoodie.property = 'value') PARTITIONED BY (dt);
CREATE TABLE {t2} LIKE {t} USING hudi TBLPROPERTIES (primaryKey = 'id,name', type = 'cow');
INSERT INTO {t2} VALUES (1, 'a', 2, 3, 'x');
? SELECT _hoodie_record_key, _hoodie_partition_path, id, name, price, ts, dt FROM {t2};
CREATE TABLE {t3} LIKE {t} USING hudi;
INSERT INTO {t3} VALUES (1, 'a', 2, 3, 'x');
? SELECT id, name, price, ts, dt FROM {t3};

== properties that are no options
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', payloadType = 'own', 'x.y' = 'z');
INSERT INTO {t} VALUES (1, 'a', 2);
? SELECT id, name, ts FROM {t};

== a comment
CREATE TABLE {t} (id INT COMMENT 'key', name STRING) USING hudi COMMENT "This is a simple hudi table" TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a');
? SELECT id, name FROM {t};

== small types
CREATE TABLE {t} (id TINYINT, name VARCHAR(10), price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a', 2, 3);
? SELECT id, name, price, ts FROM {t};

== read-optimized and real-time entries
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'mor') LOCATION '{path}/b';
% hoodie.spark.sql.insert.into.operation = upsert
INSERT INTO {t} VALUES (1, 'a1', 1000);
INSERT INTO {t} VALUES (1, 'a2', 1100);
CREATE TABLE {t2} USING hudi TBLPROPERTIES ('hoodie.query.as.ro.table' = 'true') LOCATION '{path}/b';
? SELECT id, name, ts FROM {t2};
CREATE TABLE {t3} USING hudi TBLPROPERTIES ('hoodie.query.as.ro.table' = 'false') LOCATION '{path}/b';
? SELECT id, name, ts FROM {t3};

== read-optimized entries that cannot be
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = 'cow') LOCATION '{path}/b';
! [ro/rt|ro.table, mor table|merge-on-read] CREATE TABLE {t2} USING hudi TBLPROPERTIES ('hoodie.query.as.ro.table' = 'true') LOCATION '{path}/b';
! [ro/rt|ro.table, need the existence|there must be] CREATE TABLE {t2} USING hudi TBLPROPERTIES ('hoodie.query.as.ro.table' = 'true') LOCATION '{path}/nothing';
! [ro/rt|ro.table, ctas|without as] CREATE TABLE {t3} USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'mor', 'hoodie.query.as.ro.table' = 'true') LOCATION '{path}/c' AS SELECT 1 AS id, 'a1' AS name;

== base files of another format [format: PARQUET, ORC]
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'cow', preCombineField = 'ts', hoodie.table.base.file.format = '{format}');
INSERT INTO {t} VALUES (1, 'a', 2);
? SELECT id, name, ts FROM {t};

== procedures of tables that are not Hudi's
CREATE TABLE {t} (id INT) USING parquet;
! [hudi table] CALL show_commits(table => '{t}', limit => 10);

== dropping
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') LOCATION '{path}/d';
INSERT INTO {t} VALUES (1, 'a');
DROP TABLE {t};
? SHOW TABLES LIKE '{t}';
CREATE TABLE {t} USING hudi LOCATION '{path}/d';
? SELECT id, name FROM {t};
DROP TABLE {t} PURGE;
! [missing schema|without columns] CREATE TABLE {t} USING hudi LOCATION '{path}/d';
DROP TABLE IF EXISTS {t2};
! [not_found] DROP TABLE {t2};

== truncating [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi OPTIONS (type = '{kind}', primaryKey = 'id', orderingFields = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 1000);
TRUNCATE TABLE {t};
? SELECT count(1) FROM {t};
INSERT INTO {t} VALUES (1, 'a1', 1000);
? SELECT id, name, ts FROM {t};

== truncating partitions [kind: cow, mor] [encoded: true, false]
CREATE TABLE {t} (id INT, name STRING, ts STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (type = '{kind}', primaryKey = 'id', orderingFields = 'ts', hoodie.datasource.write.hive_style_partitioning = 'false', hoodie.datasource.write.partitionpath.urlencode = '{encoded}');
INSERT INTO {t} VALUES (1, 'z3', 'v1', '2021/10/01'), (2, 'l4', 'v1', '2021/10/02');
TRUNCATE TABLE {t} PARTITION (dt = '2021/10/01');
? SELECT dt FROM {t};
TRUNCATE TABLE {t};
? SELECT count(1) FROM {t};

== truncating partitions of several columns [hive: true, false]
CREATE TABLE {t} (id INT, name STRING, ts STRING, year STRING, month STRING, day STRING) USING hudi PARTITIONED BY (year, month, day) TBLPROPERTIES (type = 'mor', primaryKey = 'id', orderingFields = 'ts', hoodie.datasource.write.hive_style_partitioning = '{hive}');
INSERT INTO {t} VALUES (1, 'z3', 'v1', '2021', '10', '01'), (2, 'l4', 'v1', '2021', '10', '02');
! [all partition columns] TRUNCATE TABLE {t} PARTITION (year = '2021', month = '10');
TRUNCATE TABLE {t} PARTITION (year = '2021', month = '10', day = '01');
? SELECT id, name, ts, year, month, day FROM {t};

== key generators by the columns
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi PARTITIONED BY (ts) TBLPROPERTIES (primaryKey = 'id,name', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a', 2);
? SELECT _hoodie_record_key, _hoodie_partition_path FROM {t};

== an existing table by data frames, used by statements [day: 2021-08-02, 2021/08/02]
CREATE TABLE {t} (id INT, name STRING, value INT, ts INT, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', hoodie.datasource.write.hive_style_partitioning = 'false');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, '{day}');
INSERT INTO {t} VALUES (2, 'a2', 10, 1000, '{day}');
MERGE INTO {t} h0 USING (SELECT 1 AS id, 'a1' AS name, 11 AS value, 1001 AS ts, '{day}' AS dt) s0 ON h0.id = s0.id WHEN MATCHED THEN UPDATE SET *;
UPDATE {t} SET value = value + 1 WHERE id = 2;
? SELECT _hoodie_record_key, _hoodie_partition_path, id, name, value, ts, dt FROM {t};
DELETE FROM {t} WHERE id = 1;
? SELECT id, name, value, ts, dt FROM {t};

== the same in several levels, encoded [day: 2021-08-02, 2021/08/02]
CREATE TABLE {t} (id INT, name STRING, value INT, ts INT, day STRING, hh INT) USING hudi PARTITIONED BY (day, hh) TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts', hoodie.datasource.write.hive_style_partitioning = 'false', hoodie.datasource.write.partitionpath.urlencode = 'true');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000, '{day}', 12);
INSERT INTO {t} VALUES (2, 'a2', 10, 1000, '{day}', 12);
MERGE INTO {t} h0 USING (SELECT 1 AS id, 'a1' AS name, 11 AS value, 1001 AS ts, '{day}' AS day, 12 AS hh) s0 ON h0.id = s0.id WHEN MATCHED THEN UPDATE SET *;
UPDATE {t} SET value = value + 1 WHERE id = 2;
? SELECT _hoodie_record_key, _hoodie_partition_path, id, name, value, ts, day, hh FROM {t};
DELETE FROM {t} WHERE id = 1;
? SELECT id, name, value, ts, day, hh FROM {t};

== describing
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
differs: deliberate.md: DESCRIBE, SHOW TBLPROPERTIES
? DESCRIBE {t};
? DESCRIBE TABLE {t} name;

== repairing
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a', 'x');
MSCK REPAIR TABLE {t};
? SHOW PARTITIONS {t};

== replacing
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1');
! [replace] CREATE OR REPLACE TABLE {t} USING hudi TBLPROPERTIES (primaryKey = 'id') AS SELECT 2 AS id, 'b' AS other;
? SELECT id, name FROM {t};
