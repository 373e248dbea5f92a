package herdsman.recipes;

import static java.util.Map.entry;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;

/** Leader latches and leader selectors. */
final class Elections {
    /** Leads until it is told to let go. */
    private static final class Candidate extends LeaderSelectorListenerAdapter {
        final LeaderSelector selector;
        private final Semaphore letGo = new Semaphore(0);
        private volatile boolean leads;

        Candidate(CuratorFramework client, String path, String id) {
            selector = new LeaderSelector(client, path, this);
            selector.setId(id);
        }

        @Override
        public void takeLeadership(CuratorFramework client) throws InterruptedException {
            letGo.drainPermits();
            leads = true;
            try {
                letGo.acquire();
            } finally {
                leads = false;
            }
        }
    }

    private final Peer peer;
    private final Handles<LeaderLatch> latches;
    private final Handles<Candidate> candidates;

    Elections(Peer peer) {
        this.peer = peer;
        latches = new Handles<>(peer, LeaderLatch::close);
        candidates = new Handles<>(peer, candidate -> candidate.selector.close());
    }

    Map<String, Verb> verbs() {
        return Map.ofEntries(
                entry("latch start", this::startLatch),
                entry("latch has", command -> List.of(latches.get(command).hasLeadership())),
                entry("latch await", this::awaitLatch),
                entry("latch leader", command -> List.of(latches.get(command).getLeader().getId())),
                entry("latch participants", command -> ids(latches.get(command).getParticipants())),
                entry("latch close", this::closeLatch),
                entry("selector start", this::startSelector),
                entry("selector holds", command -> List.of(candidates.get(command).leads)),
                entry("selector await", this::awaitSelector),
                entry("selector leader", command -> List.of(candidates.get(command).selector.getLeader().getId())),
                entry("selector participants", command -> ids(candidates.get(command).selector.getParticipants())),
                entry("selector release", this::releaseSelector),
                entry("selector requeue", command -> List.of(candidates.get(command).selector.requeue())),
                entry("selector close", this::closeSelector));
    }

    private static List<String> ids(Iterable<Participant> participants) {
        List<String> ids = new ArrayList<>();
        participants.forEach(participant -> ids.add(participant.getId()));
        return ids;
    }

    private List<?> startLatch(Command command) throws Exception {
        latches.add(command, new LeaderLatch(peer.client, command.path(), command.text(0))).start();
        return Verb.DONE;
    }

    private List<?> awaitLatch(Command command) throws Exception {
        peer.within(latches.get(command).await(peer.limitMs, TimeUnit.MILLISECONDS), "becoming the leader");
        return Verb.DONE;
    }

    private List<?> closeLatch(Command command) throws Exception {
        latches.end(command);
        return Verb.DONE;
    }

    private List<?> startSelector(Command command) {
        candidates.add(command, new Candidate(peer.client, command.path(), command.text(0))).selector.start();
        return Verb.DONE;
    }

    private List<?> awaitSelector(Command command) throws Exception {
        Candidate candidate = candidates.get(command);
        peer.eventually(() -> candidate.leads, "becoming the leader");
        return Verb.DONE;
    }

    /** Lets takeLeadership return; the answer comes when it has. */
    private List<?> releaseSelector(Command command) throws Exception {
        Candidate candidate = candidates.get(command);
        if (!candidate.leads) {
            throw new IllegalStateException("does not lead: " + command.key());
        }
        candidate.letGo.release();
        peer.eventually(() -> !candidate.leads, "letting go");
        return Verb.DONE;
    }

    private List<?> closeSelector(Command command) throws Exception {
        candidates.end(command);
        return Verb.DONE;
    }
}
