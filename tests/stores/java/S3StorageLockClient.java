package org.apache.hudi.aws.transaction.lock;

import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Properties;
import org.apache.hudi.client.transaction.lock.StorageLockClient;
import org.apache.hudi.client.transaction.lock.models.LockGetResult;
import org.apache.hudi.client.transaction.lock.models.LockUpsertResult;
import org.apache.hudi.client.transaction.lock.models.StorageLockData;
import org.apache.hudi.client.transaction.lock.models.StorageLockFile;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.collection.Pair;

/**
 * Stands for Apache Hudi's class of this name, whose module is not part of the bundle: the same conditions, unsigned, for a
 * server at the system property "s3.endpoint". What is tested is StorageBasedLockProvider, which uses it.
 */
public class S3StorageLockClient implements StorageLockClient {
  private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final URI file;

  public S3StorageLockClient(String owner, String path, Properties properties) {
    this.file = at(path);
  }

  private static URI at(String path) {
    return URI.create(System.getProperty("s3.endpoint") + "/" + path.replaceFirst("^s3a?://", ""));
  }

  private HttpResponse<byte[]> send(HttpRequest.Builder request) throws Exception {
    return http.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
  }

  @Override
  public Pair<LockUpsertResult, Option<StorageLockFile>> tryUpsertLockFile(
      StorageLockData data, Option<StorageLockFile> previous) {
    try {
      HttpRequest.Builder request =
          HttpRequest.newBuilder(file).PUT(HttpRequest.BodyPublishers.ofByteArray(StorageLockFile.toByteArray(data)));
      if (previous.isPresent()) {
        request.header("If-Match", previous.get().getVersionId());
      } else {
        request.header("If-None-Match", "*");
      }
      HttpResponse<byte[]> answer = send(request);
      if (answer.statusCode() == 200) {
        String tag = answer.headers().firstValue("ETag").get();
        return Pair.of(LockUpsertResult.SUCCESS, Option.of(new StorageLockFile(data, tag)));
      }
      boolean lost = answer.statusCode() == 412;
      return Pair.of(lost ? LockUpsertResult.ACQUIRED_BY_OTHERS : LockUpsertResult.UNKNOWN_ERROR, Option.empty());
    } catch (Exception e) {
      return Pair.of(LockUpsertResult.UNKNOWN_ERROR, Option.empty());
    }
  }

  @Override
  public Pair<LockGetResult, Option<StorageLockFile>> readCurrentLockFile() {
    try {
      HttpResponse<byte[]> answer = send(HttpRequest.newBuilder(file).GET());
      if (answer.statusCode() == 404) {
        return Pair.of(LockGetResult.NOT_EXISTS, Option.empty());
      }
      if (answer.statusCode() != 200) {
        return Pair.of(LockGetResult.UNKNOWN_ERROR, Option.empty());
      }
      String tag = answer.headers().firstValue("ETag").get();
      StorageLockFile found = StorageLockFile.createFromStream(new ByteArrayInputStream(answer.body()), tag);
      return Pair.of(LockGetResult.SUCCESS, Option.of(found));
    } catch (Exception e) {
      return Pair.of(LockGetResult.UNKNOWN_ERROR, Option.empty());
    }
  }

  @Override
  public Option<String> readObject(String path, boolean checkExistsFirst) {
    return Option.empty();
  }

  @Override
  public boolean writeObject(String path, String content) {
    return false;
  }

  @Override
  public void close() {}
}
