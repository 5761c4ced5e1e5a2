import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;
import org.apache.hadoop.hdfs.MiniDFSNNTopology.NNConf;
import org.apache.hadoop.hdfs.MiniDFSNNTopology.NSConf;

/**
 * A name node and a data node in a folder, until the standard input ends. Arguments: folder, port. With a second port, two name
 * nodes, of which the first is active; each byte of the standard input ends the active one, and makes the other one active.
 */
public class Cluster {
  public static void main(String[] arguments) throws Exception {
    MiniDFSCluster.Builder builder = new MiniDFSCluster.Builder(new Configuration(), new File(arguments[0])).numDataNodes(1);
    boolean two = arguments.length > 2;
    if (two) {
      NSConf service = new NSConf("lake");
      for (int i = 1; i < 3; i++) {
        service.addNN(new NNConf("nn" + i).setIpcPort(Integer.parseInt(arguments[i])));
      }
      builder.nnTopology(new MiniDFSNNTopology().addNameservice(service));
    } else {
      builder.nameNodePort(Integer.parseInt(arguments[1]));
    }
    MiniDFSCluster running = builder.build();
    if (two) {
      running.transitionToActive(0);
    }
    running.waitActive();
    System.out.println("ready");
    System.out.flush();
    while (System.in.read() >= 0) {
      running.shutdownNameNode(0);
      running.transitionToActive(1);
      System.out.println("changed");
      System.out.flush();
    }
    running.shutdown(true);
    System.exit(0);
  }
}
