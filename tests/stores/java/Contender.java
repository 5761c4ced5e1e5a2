import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.common.config.LockConfiguration;
import org.apache.hudi.common.config.TypedProperties;
import org.apache.hudi.common.lock.LockProvider;
import org.apache.hudi.storage.StorageConfiguration;
import org.apache.hudi.storage.hadoop.HadoopStorageConfiguration;

/**
 * Goes through critical sections under a lock provider of Apache Hudi. Arguments: class of the provider, number of sections,
 * milliseconds in each, witness file, what to do at the end ("release", "halt"), and options as key=value. In a section the
 * witness file exists: nobody else may find it.
 */
public class Contender {
  public static void main(String[] arguments) throws Exception {
    TypedProperties options = new TypedProperties();
    for (int i = 5; i < arguments.length; i++) {
      String[] parts = arguments[i].split("=", 2);
      options.setProperty(parts[0], parts[1]);
    }
    StorageConfiguration<?> storage = new HadoopStorageConfiguration(new Configuration());
    Path witness = Paths.get(arguments[3]);
    int overlaps = 0;
    int done = 0;
    System.out.println("ready");
    System.out.flush();
    while (done < Integer.parseInt(arguments[1])) {
      LockProvider<?> provider =
          (LockProvider<?>)
              Class.forName(arguments[0])
                  .getConstructor(LockConfiguration.class, StorageConfiguration.class)
                  .newInstance(new LockConfiguration(options), storage);
      boolean acquired = false;
      try {
        acquired = provider.tryLock(20, TimeUnit.SECONDS);
      } catch (org.apache.hudi.exception.HoodieLockException e) {
        Thread.sleep(20);
      }
      if (!acquired) {
        // Not closed: closing a file lock deletes it, whoever holds it
        Thread.sleep(5);
        if (!arguments[0].endsWith("FileSystemBasedLockProvider")) {
          provider.close();
        }
        continue;
      }
      try {
        Files.createFile(witness);
      } catch (FileAlreadyExistsException e) {
        overlaps++;
      }
      System.out.println("in");
      System.out.flush();
      Thread.sleep(Long.parseLong(arguments[2]));
      if (arguments[4].equals("halt") && done + 1 == Integer.parseInt(arguments[1])) {
        Files.deleteIfExists(witness);
        System.out.println("halts");
        System.out.flush();
        Runtime.getRuntime().halt(9);
      }
      if (!Files.deleteIfExists(witness)) {
        overlaps++;
      }
      provider.unlock();
      if (!arguments[0].endsWith("FileSystemBasedLockProvider")) {
        provider.close();
      }
      done++;
    }
    System.out.println("done " + done + " overlaps " + overlaps);
    System.out.flush();
    System.exit(0);
  }
}
