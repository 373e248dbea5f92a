package herdsman.recipes;

import static java.util.Map.entry;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.zookeeper.CreateMode;

/** Group members and nodes that stay. */
final class Nodes {
    private final Peer peer;
    private final Handles<GroupMember> members;
    private final Handles<PersistentNode> nodes;
    private final Handles<PersistentTtlNode> ttlNodes;

    Nodes(Peer peer) {
        this.peer = peer;
        members = new Handles<>(peer, GroupMember::close);
        nodes = new Handles<>(peer, PersistentNode::close);
        ttlNodes = new Handles<>(peer, PersistentTtlNode::close);
    }

    Map<String, Verb> verbs() {
        return Map.ofEntries(
                entry("group join", this::join),
                entry("group members", command -> listed(members.get(command))),
                entry("group await", this::awaitMembers),
                entry("group leave", this::leave),
                entry("persistent-node start", this::startNode),
                entry("persistent-node set", this::setNode),
                entry("persistent-node close", this::closeNode),
                entry("ttl-node start", this::startTtlNode),
                entry("ttl-node close", this::closeTtlNode));
    }

    private List<?> join(Command command) throws Exception {
        String id = command.text(0);
        GroupMember member = new GroupMember(peer.client, command.path(), id, command.bytes(1));
        members.add(command, member).start();
        peer.eventually(() -> peer.client.checkExists().forPath(command.path() + "/" + id) != null, "joining");
        return Verb.DONE;
    }

    /** Id and data of each member, ordered by id. */
    private static List<?> listed(GroupMember member) {
        List<Object> words = new ArrayList<>();
        new TreeMap<>(member.getCurrentMembers()).forEach((id, data) -> {
            words.add(id);
            words.add(data);
        });
        return words;
    }

    /** Until the group has exactly the members whose ids are given. */
    private List<?> awaitMembers(Command command) throws Exception {
        GroupMember member = members.get(command);
        Set<String> wanted = new TreeSet<>();
        for (int index = 0; command.has(index); index++) {
            wanted.add(command.text(index));
        }
        peer.eventually(() -> member.getCurrentMembers().keySet().equals(wanted), "seeing exactly " + wanted);
        return listed(member);
    }

    private List<?> leave(Command command) throws Exception {
        members.end(command);
        return Verb.DONE;
    }

    private List<?> startNode(Command command) throws Exception {
        CreateMode mode = CreateMode.valueOf(command.text(0).toUpperCase().replace('-', '_'));
        PersistentNode node = new PersistentNode(peer.client, mode, false, command.path(), command.bytes(1));
        nodes.add(command, node).start();
        peer.within(node.waitForInitialCreate(peer.limitMs, TimeUnit.MILLISECONDS), "creating the node");
        return List.of(node.getActualPath());
    }

    private List<?> setNode(Command command) throws Exception {
        nodes.get(command).setData(command.bytes(0));
        return Verb.DONE;
    }

    private List<?> closeNode(Command command) throws Exception {
        nodes.end(command);
        return Verb.DONE;
    }

    private List<?> startTtlNode(Command command) throws Exception {
        PersistentTtlNode node =
                new PersistentTtlNode(peer.client, command.path(), command.number(0), command.bytes(1));
        ttlNodes.add(command, node).start();
        peer.within(node.waitForInitialCreate(peer.limitMs, TimeUnit.MILLISECONDS), "creating the node");
        return Verb.DONE;
    }

    private List<?> closeTtlNode(Command command) throws Exception {
        ttlNodes.end(command);
        return Verb.DONE;
    }
}
