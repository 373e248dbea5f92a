import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/**
 * Logs in to a server with Apache's own client and prints what the client makes of it: each state that it reports, then the
 * result of one read, then its last state. Any release of the client's jars will do.
 */
public final class Login {
    private static final int PATIENCE_SECONDS = 30;
    /** A client that has lost its connection this often tries again for ever. */
    private static final int LOST_MAX = 3;

    public static void main(String[] arguments) throws Exception {
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        ZooKeeper client = new ZooKeeper(arguments[0], 10_000, events::add);
        boolean isDecided = false;
        for (int lost = 0; !isDecided && lost < LOST_MAX;) {
            WatchedEvent event = events.poll(PATIENCE_SECONDS, TimeUnit.SECONDS);
            if (event == null) {
                System.out.println("no event for " + PATIENCE_SECONDS + " s");
                break;
            }
            KeeperState state = event.getState();
            System.out.println("event " + state);
            isDecided = state == KeeperState.AuthFailed || state == KeeperState.SaslAuthenticated;
            lost += state == KeeperState.Disconnected ? 1 : 0;
        }
        System.out.println("read " + read(client));
        System.out.println("state " + client.getState());
        // No close: that waits for an answer of the server.
        System.exit(0);
    }

    private static String read(ZooKeeper client) throws InterruptedException {
        try {
            client.exists("/", false);
            return "ok";
        } catch (KeeperException error) {
            return error.code().toString();
        }
    }
}
