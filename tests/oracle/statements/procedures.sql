# TestCallProcedure TestCallCommandParser TestCommitsProcedure TestSavepointsProcedure TestCleanProcedure TestShowCleansProcedures TestArchiveCommitsProcedure TestCopyToTableProcedure TestCopyToTempViewProcedure TestFsViewProcedure TestShowFileStatusProcedure TestShowTimelineProcedure TestStatsProcedure TestTruncateTableProcedure TestDropPartitionProcedure TestMetadataProcedure TestShowTablePropertiesProcedure TestHoodieLogFileProcedure TestShowInvalidParquetProcedure TestExportInstantsProcedure TestHelpProcedure TestProcedureParameterImpl TestHoodieProcedureFilterUtils TestRestoreProcedure TestShowInflightCommitsProcedure TestPartitionBucketIndexManager TestRepairsProcedure TestSetAuditLockProcedure TestShowAuditLockStatusProcedure TestValidateAuditLockProcedure TestCleanupAuditLockProcedure TestShowFsPathDetailProcedure TestRunRollbackInflightTableServiceProcedure TestHdfsParquetImportProcedure
== arguments
differs: deliberate.md: | Names of arguments of procedures | in lower case alone; an argument in upper case is ignored | in any case |
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts');
INSERT INTO {t} SELECT 1, 'a1', 1000;
INSERT INTO {t} SELECT 2, 'a2', 1500;
! [table] CALL show_commits(limit => 10);
CALL show_commits(table => '{t}', limit => 10);
CALL show_commits('{t}', 10);
CALL show_commits(TABLE => '{t}');
CALL show_commits(table => '{t}', nothing => 3);
! [call] CALL no_such_procedure(table => '{t}');
! [table] CALL show_commits_metadata(limit => 10);
! [instant_time] CALL rollback_to_instant(table => '{t}');
! [not_found|no hudi table] CALL show_commits(table => '{t}x');

== rollbacks
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts');
INSERT INTO {t} SELECT 1, 'a1', 1000;
INSERT INTO {t} SELECT 2, 'a2', 1500;
INSERT INTO {t} SELECT 3, 'a3', 2000;
@ last = SELECT max(_hoodie_commit_time) FROM {t};
? CALL rollback_to_instant(table => '{t}', instant_time => '{last}');
@ middle = SELECT max(_hoodie_commit_time) FROM {t};
? CALL rollback_to_instant('{t}', '{middle}');
? SELECT id, name, ts FROM {t};
! [instant_time] CALL show_rollback_detail(table => '{t}');
CALL show_rollbacks(table => '{t}', limit => 10);

== savepoints
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts') LOCATION '{path}/t';
INSERT INTO {t} SELECT 1, 'a1', 1000;
@ first = SELECT max(_hoodie_commit_time) FROM {t};
INSERT INTO {t} SELECT 2, 'a2', 1500;
? CALL create_savepoint(table => '{t}', commit_time => '{first}');
? CALL create_savepoint(path => '{path}/t', user => 'admin', comments => '1');
@ newest = CALL show_savepoints(table => '{t}');
? CALL delete_savepoint(table => '{t}', instant_time => '{newest}');
INSERT INTO {t} SELECT 3, 'a3', 1500;
? CALL rollback_to_savepoint(table => '{t}', instant_time => '{first}');
? SELECT id, name, ts FROM {t};
! [] CALL delete_savepoint(table => '{t}', instant_time => '12345');
! [table] CALL create_savepoint(commit_time => '{first}');

== cleans
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts', type = 'cow', hoodie.clean.automatic = 'false', hoodie.parquet.max.file.size = 10000);
INSERT INTO {t} VALUES (1, 'a1', 1000);
UPDATE {t} SET name = 'b' WHERE id = 1;
UPDATE {t} SET name = 'c' WHERE id = 1;
UPDATE {t} SET name = 'd' WHERE id = 1;
CALL run_clean(table => '{t}', retain_commits => 1);
? SELECT id, name, ts FROM {t};
CALL show_cleans(table => '{t}');
CALL show_cleans_metadata(table => '{t}');
CALL show_clean_plans(table => '{t}');
CALL run_clean(table => '{t}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1);
! [table] CALL run_clean(retain_commits => 1);

== archives
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', hoodie.archive.automatic = 'false');
INSERT INTO {t} VALUES (1, 'a1');
UPDATE {t} SET name = 'b' WHERE id = 1;
UPDATE {t} SET name = 'c' WHERE id = 1;
UPDATE {t} SET name = 'd' WHERE id = 1;
? CALL archive_commits(table => '{t}', min_commits => 2, max_commits => 3, retain_commits => 1, enable_metadata => false);
? SELECT id, name FROM {t};

== copies
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 1000), (2, 'a2', 1500);
! [new_table] CALL copy_to_table(table => '{t}');
? CALL copy_to_table(table => '{t}', new_table => '{t2}');
? SELECT id, name, ts FROM {t2};
? CALL copy_to_table(table => '{t}', new_table => '{t2}', save_mode => 'append');
? SELECT count(*) FROM {t2};
! [view_name] CALL copy_to_temp_view(table => '{t}');
? CALL copy_to_temp_view(table => '{t}', view_name => '{t3}');
? SELECT id, name, ts FROM {t3};
DROP VIEW {t3};

== commits
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 1000);
@ first = SELECT max(_hoodie_commit_time) FROM {t};
CALL show_commits_metadata(table => '{t}');
CALL show_commit_files(table => '{t}', instant_time => '{first}');
CALL show_commit_partitions(table => '{t}', instant_time => '{first}');
CALL show_commit_write_stats(table => '{t}', instant_time => '{first}');
CALL show_commit_extra_metadata(table => '{t}', instant_time => '{first}', metadata_key => 'schema');
CALL show_archived_commits(table => '{t}');
! [12345] CALL show_commit_files(table => '{t}', instant_time => '12345');
! [instant_time] CALL show_commit_files(table => '{t}');
CALL stats_wa(table => '{t}');
CALL stats_file_sizes(table => '{t}', partition_path => '/*');
CALL show_fsview_all(table => '{t}', path_regex => '*', limit => 10);
CALL show_fsview_latest(table => '{t}', partition_path => '');
CALL show_timeline(table => '{t}', limit => 10);
CALL show_table_properties(table => '{t}');
! [not found|no hudi table|no table] CALL show_invalid_parquet(path => '{path}');
CALL help();
CALL help(cmd => 'show_commits');
! [nothing] CALL help(cmd => 'nothing');

== the metadata table
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts', hoodie.metadata.enable = 'true');
INSERT INTO {t} VALUES (1, 'a1', 1000);
CALL show_metadata_table_partitions(table => '{t}');
CALL show_metadata_table_files(table => '{t}');
? CALL validate_metadata_table_files(table => '{t}');
CALL delete_metadata_table(table => '{t}');
CALL create_metadata_table(table => '{t}');
CALL init_metadata_table(table => '{t}', read_only => true);
! [table] CALL show_metadata_table_partitions(limit => 1);

== truncation by procedure
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1', 'x'), (2, 'a2', 'y');
CALL truncate_table(table => '{t}', partitions => 'dt=x');
? SELECT id, name, dt FROM {t};
CALL truncate_table(table => '{t}');
? SELECT id, name, dt FROM {t};

== logs
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi PARTITIONED BY (ts) TBLPROPERTIES (primaryKey = 'id', type = 'mor') LOCATION '{path}/t';
INSERT INTO {t} VALUES (1, 'a1', 1000);
UPDATE {t} SET name = 'b' WHERE id = 1;
! [table] CALL show_logfile_metadata(limit => 10);
CALL show_logfile_metadata(table => '{t}', log_file_path_pattern => '{path}/t/ts=1000/*.log.*');
CALL show_logfile_records(table => '{t}', log_file_path_pattern => '{path}/t/ts=1000/*.log.*');

== clustering
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts');
INSERT INTO {t} VALUES (1, 'a1', 1000);
CALL run_clustering(table => '{t}');
CALL show_clustering(table => '{t}');

== upgrades
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id', hoodie.write.table.version = 8);
INSERT INTO {t} VALUES (1, 'a1');
? CALL upgrade_table(table => '{t}', to_version => 'NINE');

== repairs
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1');
CALL repair_add_partition_meta(table => '{t}');
? CALL repair_corrupted_clean_files(table => '{t}');
! [new_props_file_path] CALL repair_overwrite_hoodie_props(table => '{t}');
! [duplicated_partition_path] CALL repair_deduplicate(table => '{t}');

== repairs of partitions
CREATE TABLE {t} (id INT, name STRING, dt STRING) USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1', 'x'), (2, 'a2', 'y');
? CALL repair_migrate_partition_meta(table => '{t}');
? CALL repair_migrate_partition_meta(table => '{t}', dry_run => false);
INSERT INTO {t} VALUES (3, 'a3', 'z');
? SELECT id, name, dt FROM {t};

== audits of the lock
CREATE TABLE {t} (id INT, name STRING, ts LONG) USING hudi TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts') LOCATION '{path}/t';
INSERT INTO {t} VALUES (1, 'a1', 1000);
CALL set_audit_lock(table => '{t}', state => 'enabled');
CALL show_audit_lock_status(path => '{path}/t');
CALL set_audit_lock(path => '{path}/t', state => 'disabled');
CALL validate_audit_lock(table => '{t}');
CALL cleanup_audit_lock(table => '{t}', dry_run => true, age_days => 7);
! [state] CALL set_audit_lock(table => '{t}', state => 'invalid');
! [state] CALL set_audit_lock(table => '{t}');
! [table] CALL set_audit_lock(state => 'enabled');
! [age_days] CALL cleanup_audit_lock(table => '{t}', age_days => -1);
! [table] CALL cleanup_audit_lock(dry_run => true);
! [table] CALL validate_audit_lock();
! [] CALL validate_audit_lock(path => '{path}/none');

== folders, and services that have not begun
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id') LOCATION '{path}/t';
INSERT INTO {t} VALUES (1, 'a1');
CALL show_fs_path_detail(path => '{path}/t');
CALL show_fs_path_detail(path => '{path}/t', is_sub => true, sort => false);
! [] CALL show_fs_path_detail(path => '{path}/none');
! [12345] CALL run_rollback_inflight_tableservice(table => '{t}', pending_instant => '12345');
! [pending_instant] CALL run_rollback_inflight_tableservice(table => '{t}');
! [table|target_path] CALL hdfs_parquet_import(table_type => 'mor');

== markers
CREATE TABLE {t} (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id');
INSERT INTO {t} VALUES (1, 'a1');
? CALL delete_marker(table => '{t}', instant_time => '12345');
? CALL delete_marker(table => '{t}', instant_time => '101,102');
! [instant_time] CALL delete_marker(table => '{t}');
