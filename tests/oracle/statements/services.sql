# TestClusteringProcedure TestRunClusteringProcedure TestRepairsProcedure TestUpgradeOrDowngradeProcedure TestRunRollbackInflightTableServiceProcedure TestShowFsPathDetailProcedure TestSetAuditLockProcedure TestShowAuditLockStatusProcedure
== clustering, by partitions [kind: cow, mor]
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi OPTIONS (primaryKey = 'id', type = '{kind}', preCombineField = 'ts') PARTITIONED BY (ts);
INSERT INTO {t} VALUES (1, 'a1', 1000), (2, 'a2', 1001);
differs: not-built.md: `run_clustering` by a predicate
! [] CALL run_clustering(table => '{t}', predicate => 'ts <= 1001L AND id = 10', order => 'ts');
CALL run_clustering(table => '{t}', predicate => 'ts <= 1000L', order => 'ts', show_involved_partition => true);
? SELECT id, name, ts FROM {t};

== repairs of duplicates and properties
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') PARTITIONED BY (dt);
INSERT INTO {t} VALUES (1, 'a1', 'x');
CALL repair_migrate_partition_meta(table => '{t}');
CALL repair_deduplicate(table => '{t}', duplicated_partition_path => 'dt=x', repaired_output_path => '{path}/r', dedupe_type => 'insert_type');

== a downgrade
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1');
? CALL downgrade_table(table => '{t}', to_version => 'EIGHT');
? SELECT id, name FROM {t};

== folders of a table
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') LOCATION '{path}/t';
INSERT INTO {t} VALUES (1, 'a1');
CALL show_fs_path_detail(path => '{path}/t', is_sub => true);

== audit locks
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1');
CALL set_audit_lock(table => '{t}', state => 'disabled');
CALL show_audit_lock_status(table => '{t}');
