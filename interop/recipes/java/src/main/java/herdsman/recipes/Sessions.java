package herdsman.recipes;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/** The session itself: its id, and its violent end. */
final class Sessions {
    private final Peer peer;

    Sessions(Peer peer) {
        this.peer = peer;
    }

    Map<String, Verb> verbs() {
        return Map.of(
                "session id", command -> List.of(id(peer)),
                "session kill", this::kill,
                "session await-new", this::awaitNew);
    }

    static String id(Peer peer) throws Exception {
        return "0x" + Long.toHexString(peer.client.getZookeeperClient().getZooKeeper().getSessionId());
    }

    /** A second connection takes the session over and closes it. The first learns of it as an expired session. */
    private List<?> kill(Command command) throws Exception {
        ZooKeeper victim = peer.client.getZookeeperClient().getZooKeeper();
        long id = victim.getSessionId();
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper killer = new ZooKeeper(peer.connectString, victim.getSessionTimeout(), event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        }, id, victim.getSessionPasswd());
        try {
            peer.within(connected.await(peer.limitMs, TimeUnit.MILLISECONDS), "taking the session over");
        } finally {
            killer.close();
        }
        return List.of("0x" + Long.toHexString(id));
    }

    /** Argument, in the path's place: the id of the session that is over. The answer comes when another one stands. */
    private List<?> awaitNew(Command command) throws Exception {
        peer.eventually(() -> isOtherThan(command.key()), "a new session");
        return List.of(id(peer));
    }

    private boolean isOtherThan(String id) {
        try {
            peer.client.checkExists().forPath("/");
            return !id(peer).equals(id);
        } catch (Exception notConnected) {
            return false;
        }
    }
}
