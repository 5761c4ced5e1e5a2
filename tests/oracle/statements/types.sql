# TestBlobDataType TestCreateTableWithBlobType TestVariantDataType TestVariantPushVariantIntoScan TestVariantShreddingMixedLayouts TestBatchedBlobReaderIO TestBatchedBlobReaderMerge
== blobs, inline [kind: cow, mor]
CREATE TABLE {t} (id INT, data BLOB, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, named_struct('type', 'INLINE', 'data', cast(X'01' AS BINARY), 'reference', cast(null AS STRUCT<external_path: STRING, offset: BIGINT, length: BIGINT, managed: BOOLEAN>)), 1000), (2, named_struct('type', 'INLINE', 'data', cast(X'02' AS BINARY), 'reference', cast(null AS STRUCT<external_path: STRING, offset: BIGINT, length: BIGINT, managed: BOOLEAN>)), 1000);
MERGE INTO {t} h0 USING (SELECT 1 AS id, named_struct('type', 'INLINE', 'data', cast(X'11' AS BINARY), 'reference', cast(null AS STRUCT<external_path: STRING, offset: BIGINT, length: BIGINT, managed: BOOLEAN>)) AS data, 1001L AS ts) s0 ON h0.id = s0.id WHEN MATCHED THEN UPDATE SET *;
? SELECT id, data, ts FROM {t};

== blobs, read by their function
CREATE TABLE {t} (id INT, data BLOB) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, named_struct('type', 'INLINE', 'data', cast(X'0102' AS BINARY), 'reference', cast(null AS STRUCT<external_path: STRING, offset: BIGINT, length: BIGINT, managed: BOOLEAN>)));
differs: not-built.md: The function `read_blob`
? SELECT id, read_blob(data) AS bytes FROM {t};

== blobs elsewhere, copy on write
CREATE TABLE {t} (id INT, data BLOB, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'cow', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, named_struct('type', 'OUT_OF_LINE', 'data', cast(null AS BINARY), 'reference', named_struct('external_path', '/data/blob1.bin', 'offset', 0L, 'length', 100L, 'managed', false)), 1000);
UPDATE {t} SET ts = 1001 WHERE id = 1;
? SELECT id, data FROM {t};
? SELECT id, data.type, data.reference.external_path, data.reference.length, ts FROM {t};

== blobs elsewhere, merge on read
CREATE TABLE {t} (id INT, data BLOB, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'mor', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, named_struct('type', 'OUT_OF_LINE', 'data', cast(null AS BINARY), 'reference', named_struct('external_path', '/data/blob1.bin', 'offset', 0L, 'length', 100L, 'managed', false)), 1000);
UPDATE {t} SET ts = 1001 WHERE id = 1;
? SELECT id, data FROM {t};
differs: faults-avoided.md: members of the reference of a BLOB alone
? SELECT id, data.type, data.reference.external_path, data.reference.length, ts FROM {t};

== blobs within types
CREATE TABLE {t} (id INT, c_arr ARRAY<BLOB>, c_struct STRUCT<a: INT, b: BLOB>, data BLOB COMMENT 'bytes') USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} (id) VALUES (1);
? SELECT id, data, c_struct FROM {t};

== vectors
CREATE TABLE {t} (id INT, v VECTOR(3)) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, array(cast(1.0 AS FLOAT), cast(2.0 AS FLOAT), cast(3.0 AS FLOAT)));
? SELECT id, v FROM {t};

== variants [kind: cow, mor]
differs: deliberate.md: VARIANT columns
CREATE TABLE {t} (id INT, name STRING, v VARIANT, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, 'row1', parse_json('{"key": "value1", "num": 1}'), 1000), (2, 'row2', parse_json('{"key": "value2", "list": [1, 2, 3]}'), 1000);
UPDATE {t} SET v = parse_json('{"updated": true, "new_field": 123}') WHERE id = 1;
? SELECT id, name, cast(v AS STRING), ts FROM {t};
DELETE FROM {t} WHERE id = 2;
MERGE INTO {t} t USING (SELECT 1 AS id, 'row1' AS name, parse_json('{"key":"v1-merged"}') AS v, 2000L AS ts UNION ALL SELECT 3, 'row3', parse_json('{"key":"v3"}'), 2000L) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.v = s.v, t.ts = s.ts WHEN NOT MATCHED THEN INSERT (id, name, v, ts) VALUES (s.id, s.name, s.v, s.ts);
? SELECT id, name, cast(v AS STRING), ts FROM {t};

== blobs, absent and within queries [kind: cow, mor]
CREATE TABLE {t} (id INT, data BLOB, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, named_struct('type', 'INLINE', 'data', cast(X'0102' AS BINARY), 'reference', cast(null AS STRUCT<external_path: STRING, offset: BIGINT, length: BIGINT, managed: BOOLEAN>)), 1000);
INSERT INTO {t} (id, ts) VALUES (2, 1000);
? SELECT id, data.type, data.data FROM {t};
DELETE FROM {t} WHERE data.type = 'INLINE';
? SELECT id, data FROM {t};

== vectors, changed [kind: cow, mor]
CREATE TABLE {t} (id INT, v VECTOR(2), w VECTOR(2, DOUBLE), ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', type = '{kind}', preCombineField = 'ts');
INSERT INTO {t} VALUES (1, array(cast(1.0 AS FLOAT), cast(2.0 AS FLOAT)), array(1.5D, 2.5D), 1000);
UPDATE {t} SET ts = 1001 WHERE id = 1;
? SELECT id, v, w, ts FROM {t};
! [vector] INSERT INTO {t} VALUES (2, array(cast(1.0 AS FLOAT)), array(1.5D, 2.5D), 1000);
