# TestAlterTableAddPartition TestAlterTableDropPartition TestShowPartitions TestLazyPartitionPathFetching
== added to a table without any
CREATE TABLE {t} (id BIGINT, name STRING, ts STRING, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
! [non-partitioned|not partitioned] ALTER TABLE {t} ADD PARTITION (dt = '2023-08-01');
? SHOW PARTITIONS {t};

== added, with a location, twice
CREATE TABLE {t} (id BIGINT, name STRING, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (dt);
! [location] ALTER TABLE {t} ADD PARTITION (dt = '2023-08-01') LOCATION '/tmp/path';
? SHOW PARTITIONS {t};
ALTER TABLE {t} ADD PARTITION (dt = '2023-08-01');
? SHOW PARTITIONS {t};
ALTER TABLE {t} ADD IF NOT EXISTS PARTITION (dt = '2023-08-01');
! [already exists|exists already] ALTER TABLE {t} ADD PARTITION (dt = '2023-08-01');

== added, by style [hive: true, false]
CREATE TABLE {t} (id BIGINT, name STRING, year STRING, month STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', hoodie.datasource.write.hive_style_partitioning = '{hive}') PARTITIONED BY (year, month);
ALTER TABLE {t} ADD PARTITION (year = '2023', month = '08');
? SHOW PARTITIONS {t};

== added, by encoding [encoded: true, false]
CREATE TABLE {t} (id BIGINT, p_a STRING, p_b STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', hoodie.datasource.write.partitionpath.urlencode = '{encoded}') PARTITIONED BY (p_a, p_b);
ALTER TABLE {t} ADD PARTITION (p_a = 'url%a', p_b = 'key=val');
? SHOW PARTITIONS {t};

== added, dropped and written to [metadata: true, false]
% hoodie.metadata.enable = {metadata}
CREATE TABLE {t} (id INT, name STRING, year STRING, month STRING) USING hudi PARTITIONED BY (year, month) TBLPROPERTIES (primaryKey = 'id');
ALTER TABLE {t} ADD PARTITION (year = '2023', month = '06');
? SHOW PARTITIONS {t};
ALTER TABLE {t} DROP PARTITION (year = '2023', month = '06');
? SHOW PARTITIONS {t};
INSERT INTO {t} VALUES (1, 'a1', '2023', '06');
? SHOW PARTITIONS {t};

== dropped from a table without any
CREATE TABLE {t} (id BIGINT, name STRING, ts STRING, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, "z3", "v1", "2021-10-01"), (2, "l4", "v1", "2021-10-02");
! [non-partitioned|not partitioned] ALTER TABLE {t} DROP PARTITION (dt = '2021-10-01');
? SHOW PARTITIONS {t};

== dropped, by encoding [encoded: true, false]
CREATE TABLE {t} (id INT, name STRING, ts STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', hoodie.datasource.write.hive_style_partitioning = 'false', hoodie.datasource.write.partitionpath.urlencode = '{encoded}');
INSERT INTO {t} VALUES (1, 'z3', 'v1', '2021/10/01'), (2, 'l4', 'v1', '2021/10/02');
ALTER TABLE {t} DROP PARTITION (dt = '2021/10/01');
? SELECT dt FROM {t};
? SHOW PARTITIONS {t};
SET hoodie.clean.policy = KEEP_LATEST_FILE_VERSIONS;
CALL run_clean(table => '{t}', retain_commits => 1);
RESET hoodie.clean.policy;
? SELECT dt FROM {t};
? SHOW PARTITIONS {t};

== dropped, of a table by statements
CREATE TABLE {t} (id BIGINT, name STRING, ts STRING, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, "z3", "v1", "2021-10-01"), (2, "l4", "v1", "2021-10-02");
! [dt] ALTER TABLE {t} DROP PARTITION (dt = '2021-10-01', dt = '2021-10-02');
INSERT INTO {t} VALUES (3, "z5", "v1", "2021-10-01"), (4, "l5", "v1", "2021-10-02");
ALTER TABLE {t} DROP PARTITION (dt = '2021-10-01');
? SELECT id, name, ts, dt FROM {t};
? SHOW PARTITIONS {t};

== dropped, of several columns [hive: true, false]
CREATE TABLE {t} (id INT, name STRING, ts STRING, year STRING, month STRING, day STRING) USING hudi PARTITIONED BY (year, month, day) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', hoodie.datasource.write.hive_style_partitioning = '{hive}');
INSERT INTO {t} VALUES (1, 'z3', 'v1', '2021', '10', '01'), (2, 'l4', 'v1', '2021', '10', '02');
! [all partition columns] ALTER TABLE {t} DROP PARTITION (year = '2021', month = '10');
ALTER TABLE {t} DROP PARTITION (year = '2021', month = '10', day = '01');
? SELECT id, name, ts, year, month, day FROM {t};
? SHOW PARTITIONS {t};

== dropped, merge on read
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (type = 'mor', primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a', 'x'), (2, 'b', 'y');
UPDATE {t} SET name = 'c';
ALTER TABLE {t} DROP PARTITION (dt = 'x');
? SELECT id, name, dt FROM {t};
INSERT INTO {t} VALUES (3, 'd', 'x');
? SELECT id, name, dt FROM {t};

== dropped, by procedure
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a', 'x'), (2, 'b', 'y');
CALL drop_partition(table => '{t}', partition => 'dt=x');
? SELECT id, name, dt FROM {t};

== shown, without any
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} SELECT 1 AS id, 'a1' AS name;
? SHOW PARTITIONS {t};

== shown, with one of null
CREATE TABLE {t} (id INT, name STRING, ts LONG, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts');
? SHOW PARTITIONS {t};
INSERT INTO {t} VALUES (1, 'a1', 1000, '2021-01-01');
INSERT INTO {t} PARTITION (dt = '2021-01-02') SELECT 2 AS id, 'a2' AS name, 1000 AS ts;
? SHOW PARTITIONS {t} PARTITION (dt = '2021-01-02');
INSERT INTO {t} SELECT 3 AS id, 'a3' AS name, 1000 AS ts, null AS dt;
? SHOW PARTITIONS {t};
? SELECT id, dt FROM {t};

== shown, of several columns
CREATE TABLE {t} (id INT, year STRING, month STRING, day STRING) USING hudi PARTITIONED BY (year, month, day) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, '2021', '01', '01'), (3, '2021', '02', '01'), (4, '2021', '02', null), (5, '2021', null, '01'), (6, null, '01', '02'), (7, '2022', null, null);
? SHOW PARTITIONS {t};
? SHOW PARTITIONS {t} PARTITION (year = '2021', month = '01', day = '01');
? SHOW PARTITIONS {t} PARTITION (year = '2021', month = '02');
? SHOW PARTITIONS {t} PARTITION (day = '01');

== shown, after the table is overwritten
CREATE TABLE {t} (id INT, name STRING, year STRING, day STRING) USING hudi PARTITIONED BY (year, day) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1', '2023', '01'), (2, 'a2', '2023', '02'), (3, 'a3', '2023', '03');
INSERT OVERWRITE TABLE {t} VALUES (4, 'a4', '2023', '01'), (2, 'a2', '2023', '04');
? SHOW PARTITIONS {t};

== shown, after a partition is overwritten
% hoodie.datasource.overwrite.mode = STATIC
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1', '2023-12-01'), (2, 'a2', '2023-12-02');
INSERT OVERWRITE TABLE {t} PARTITION (dt = '2023-12-01') VALUES (4, 'a4'), (2, 'a2');
? SHOW PARTITIONS {t};
? SELECT id, name, dt FROM {t};

== shown, dates with slashes
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', 'hoodie.datasource.write.slash.separated.date.partitioning' = 'true');
? SHOW PARTITIONS {t};
INSERT INTO {t} VALUES (1, 'a1', '2026-01-05'), (3, 'a3', '2026-02-10');
? SHOW PARTITIONS {t};
? SELECT id, dt, _hoodie_partition_path FROM {t} WHERE dt = '2026-02-10';
UPDATE {t} SET name = 'b' WHERE id = 1;
? SELECT id, name, dt FROM {t};

== filters on partitions [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, date_par DATE, country STRING) USING hudi PARTITIONED BY (date_par, country) TBLPROPERTIES (type = '{kind}', primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1', DATE '2023-02-27', 'sg'), (2, 'a2', DATE '2023-02-28', 'us'), (3, 'a3', DATE '2023-03-01', 'us');
? SELECT id FROM {t} WHERE date_par > '2023-02-27';
? SELECT id FROM {t} WHERE date_par = date_sub('2023-03-02', 1) AND country = 'us';
? SELECT id FROM {t} WHERE country = 'us' AND year(date_par) = 2023 AND name LIKE 'a2%';

== in another order than the columns
differs: deliberate.md: Partition columns in another order than the table's
CREATE TABLE {t} (id INT, a STRING, b STRING) USING hudi PARTITIONED BY (b, a) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'x', 'y');
? SELECT id, _hoodie_partition_path FROM {t};
