import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A name node and a data node in a folder, until the standard input ends. Arguments: folder, port. */
public class Cluster {
  public static void main(String[] arguments) throws Exception {
    MiniDFSCluster.Builder builder = new MiniDFSCluster.Builder(new Configuration(), new File(arguments[0]));
    MiniDFSCluster running = builder.nameNodePort(Integer.parseInt(arguments[1])).numDataNodes(1).build();
    running.waitClusterUp();
    System.out.println("ready");
    System.out.flush();
    while (System.in.read() >= 0) {}
    running.shutdown(true);
    System.exit(0);
  }
}
