# TestInsertTable2 TestInsertTable3 TestInsertTable4 TestInsertTable5
== the operation [kind: cow, mor] [op: insert, upsert, bulk_insert]
% hoodie.spark.sql.insert.into.operation = {op}
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'name') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 10, '2021-07-18');
INSERT INTO {t} VALUES (1, 'a1_1', 10, '2021-07-18'), (2, 'a2', 20, '2021-07-18'), (2, 'a2_2', 30, '2021-07-18');
? SELECT id, name, price, dt FROM {t};

== the operation and the older mode [op: insert, bulk_insert, upsert]
% hoodie.spark.sql.insert.into.operation = {op}
% hoodie.sql.insert.mode = upsert
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 10, '2021-07-18');
INSERT INTO {t} VALUES (1, 'a1_1', 10, '2021-07-18'), (2, 'a2', 20, '2021-07-18');
? SELECT id, name, price, dt FROM {t};

== neither of them [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'name') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 10, '2021-07-18');
INSERT INTO {t} VALUES (1, 'a1_1', 10, '2021-07-18'), (2, 'a2', 20, '2021-07-18'), (2, 'a2_2', 30, '2021-07-18');
? SELECT id, name, price, dt FROM {t};

== the older mode alone [mode: upsert, strict, non-strict]
% hoodie.combine.before.insert = true
% hoodie.sql.insert.mode = {mode}
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', preCombineField = 'name') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 10, '2021-07-18');
INSERT INTO {t} VALUES (1, 'a1_1', 10, '2021-07-18'), (2, 'a2', 20, '2021-07-18'), (2, 'a2_2', 30, '2021-07-18');
? SELECT id, name, price, dt FROM {t};

== duplicates of inserts [kind: cow, mor] [allowed: true, false]
% hoodie.datasource.write.operation = insert
% hoodie.merge.allow.duplicate.on.inserts = {allowed}
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = '{kind}');
INSERT INTO {t} PARTITION (dt = '2021-12-25') VALUES (1, 'a1', 10, 1000);
INSERT INTO {t} PARTITION (dt = '2021-12-25') VALUES (1, 'a2', 20, 1001);
? SELECT id, name, price, ts, dt FROM {t};

== policy of duplicates [kind: cow, mor] [policy: none, drop]
% hoodie.datasource.insert.dup.policy = {policy}
% hoodie.spark.sql.insert.into.operation = insert
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'name') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 10, '2021-07-18');
INSERT INTO {t} VALUES (1, 'a1_1', 10, '2021-07-18'), (2, 'a2', 20, '2021-07-18'), (2, 'a2_2', 30, '2021-07-18');
? SELECT id, name, price, dt FROM {t};

== policy of duplicates, fail [kind: cow, mor]
% hoodie.datasource.insert.dup.policy = fail
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', '2021-07-18');
! [duplicate] INSERT INTO {t} VALUES (1, 'a1_1', '2021-07-18'), (2, 'a2', '2021-07-18');
? SELECT id, name, dt FROM {t};

== policy of duplicates of bulk inserts
% hoodie.datasource.insert.dup.policy = none
% hoodie.spark.sql.insert.into.operation = bulk_insert
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', '2021-07-18');
INSERT INTO {t} VALUES (1, 'a1_1', '2021-07-18'), (2, 'a2', '2021-07-18'), (2, 'a2_2', '2021-07-18');
? SELECT id, name, dt FROM {t};

== bulk inserts that should drop duplicates
% hoodie.datasource.insert.dup.policy = drop
% hoodie.spark.sql.insert.into.operation = bulk_insert
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (dt);
! [bulk_insert] INSERT INTO {t} VALUES (1, 'a1', '2021-07-18');
! [bulk_insert] INSERT INTO {t} VALUES (1, 'a1_1', '2021-07-18'), (2, 'a2', '2021-07-18'), (2, 'a2_2', '2021-07-18');
? SELECT id, name, dt FROM {t};

== bulk inserts by the older options [kind: cow, mor]
% hoodie.sql.insert.mode = non-strict
% hoodie.sql.bulk.insert.enable = true
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, dt STRING, hh STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id') PARTITIONED BY (dt, hh);
INSERT INTO {t} VALUES (1, 'a1', 10, '2021-07-18', '12');
INSERT INTO {t} VALUES (1, 'a2', 10, '2021-07-18', '12');
? SELECT id, name, price, dt, hh FROM {t};
CREATE TABLE {t2} USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id') AS SELECT id, name, dt FROM {t} WHERE name = 'a1';
? SELECT id, name, dt FROM {t2};

== tables of empty queries [kind: cow, mor]
% hoodie.spark.sql.insert.into.operation = bulk_insert
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id') PARTITIONED BY (dt);
CREATE TABLE {t2} USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id') AS SELECT * FROM {t} WHERE id = 2;
? SELECT id, name, dt FROM {t2};

== overwriting a partition with nothing [kind: cow, mor] [op: bulk_insert, insert]
% hoodie.spark.sql.insert.into.operation = {op}
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (3, 'c1', 13, '2021-07-17');
INSERT INTO {t} VALUES (1, 'a1', 10, '2021-07-18');
INSERT OVERWRITE TABLE {t} PARTITION (dt = '2021-07-17') SELECT id, name, price FROM {t} WHERE id > 99;
? SELECT id, name, price, dt FROM {t};

== overwriting with bulk inserts [kind: cow, mor]
% hoodie.spark.sql.insert.into.operation = bulk_insert
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, dt STRING) USING hudi TBLPROPERTIES (type = '{kind}', primaryKey = 'id') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (3, 'c1', 13, '2021-07-17'), (1, 'a1', 10, '2021-07-18');
INSERT OVERWRITE TABLE {t} PARTITION (dt = '2021-07-17') VALUES (2, 'b1', 11);
? SELECT id, name, price, dt FROM {t};
INSERT OVERWRITE TABLE {t} VALUES (4, 'd1', 14, '2021-07-19');
? SELECT id, name, price, dt FROM {t};
INSERT OVERWRITE TABLE {t} PARTITION (dt) VALUES (5, 'e1', 15, '2021-07-20');
? SELECT id, name, price, dt FROM {t};

== rows of one key in an overwrite [kind: cow, mor]
% hoodie.sql.bulk.insert.enable = false
% hoodie.merge.allow.duplicate.on.inserts = false
% hoodie.combine.before.insert = true
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}', preCombineField = 'ts');
INSERT OVERWRITE TABLE {t} SELECT * FROM (SELECT 1 AS id, 'a1' AS name, 10 AS price, 1000 AS ts UNION ALL SELECT 1 AS id, 'a1' AS name, 11 AS price, 1001 AS ts);
? SELECT id, name, price, ts FROM {t};

== upserts of equal ordering values [kind: cow, mor]
% hoodie.spark.sql.insert.into.operation = upsert
CREATE TABLE {t} (id INT, name STRING, price DOUBLE, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 10, 1000), (1, 'a0', 9, 999);
INSERT INTO {t} VALUES (1, 'a1', 11, 1000);
INSERT INTO {t} VALUES (1, 'a1', 12, 998);
? SELECT id, name, price, ts FROM {t};

== the partition column as ordering field [kind: cow, mor]
% hoodie.spark.sql.insert.into.operation = upsert
CREATE TABLE {t} (id INT, name STRING, ts LONG, price INT) USING hudi PARTITIONED BY (ts) TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 1000, 10), (2, 'a2', 2000, 20), (6, 'a6', 4000, 30);
? SELECT id, name, price, ts FROM {t} WHERE price > 3000;
UPDATE {t} SET price = price + 1 WHERE id = 6;
? SELECT id, name, price, ts FROM {t} WHERE price > 3000;
