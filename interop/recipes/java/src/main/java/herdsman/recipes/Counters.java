package herdsman.recipes;

import static java.util.Map.entry;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.retry.RetryNTimes;

/** Shared counts and values, which are watched, and atomic numbers, which are not. */
final class Counters {
    private static final RetryNTimes MANY_TRIES = new RetryNTimes(1000, 1);

    private final Peer peer;
    private final Handles<SharedCount> counts;
    private final Handles<SharedValue> values;

    Counters(Peer peer) {
        this.peer = peer;
        counts = new Handles<>(peer, SharedCount::close);
        values = new Handles<>(peer, SharedValue::close);
    }

    Map<String, Verb> verbs() {
        return Map.ofEntries(
                entry("count get", this::countGet),
                entry("count set", this::countSet),
                entry("count try-set", this::countTrySet),
                entry("count await", this::countAwait),
                entry("value get", this::valueGet),
                entry("value set", this::valueSet),
                entry("value try-set", this::valueTrySet),
                entry("value await", this::valueAwait),
                entry("atomic-long add", command -> result(atomicLong(command).add(command.number(0)))),
                entry("atomic-long get", command -> List.of(atomicLong(command).get().postValue())),
                entry("atomic-long compare-and-set", this::longCompareAndSet),
                entry("atomic-long initialize", command -> List.of(atomicLong(command).initialize(command.number(0)))),
                entry("atomic-int add", command -> result(atomicInteger(command).add(command.integer(0)))),
                entry("atomic-int get", command -> List.of(atomicInteger(command).get().postValue())),
                entry("atomic-int compare-and-set", this::integerCompareAndSet));
    }

    /** Opened by the first command for it; the node is made with 0 if there is none. */
    private SharedCount count(Command command) throws Exception {
        return counts.orMake(command, () -> {
            SharedCount count = new SharedCount(peer.client, command.path(), 0);
            count.start();
            return count;
        });
    }

    private List<?> countGet(Command command) throws Exception {
        VersionedValue<Integer> value = count(command).getVersionedValue();
        return List.of(value.getValue(), value.getVersion());
    }

    private List<?> countSet(Command command) throws Exception {
        count(command).setCount(command.integer(0));
        return Verb.DONE;
    }

    /** Against the value this process has seen last. */
    private List<?> countTrySet(Command command) throws Exception {
        SharedCount count = count(command);
        return List.of(count.trySetCount(count.getVersionedValue(), command.integer(0)));
    }

    private List<?> countAwait(Command command) throws Exception {
        SharedCount count = count(command);
        int wanted = command.integer(0);
        peer.eventually(() -> count.getCount() == wanted, "seeing the count " + wanted);
        return Verb.DONE;
    }

    /** Opened by the first command for it; the node is made empty if there is none. */
    private SharedValue value(Command command) throws Exception {
        return values.orMake(command, () -> {
            SharedValue value = new SharedValue(peer.client, command.path(), new byte[0]);
            value.start();
            return value;
        });
    }

    private List<?> valueGet(Command command) throws Exception {
        VersionedValue<byte[]> value = value(command).getVersionedValue();
        return List.of(value.getValue(), value.getVersion());
    }

    private List<?> valueSet(Command command) throws Exception {
        value(command).setValue(command.bytes(0));
        return Verb.DONE;
    }

    private List<?> valueTrySet(Command command) throws Exception {
        SharedValue value = value(command);
        return List.of(value.trySetValue(value.getVersionedValue(), command.bytes(0)));
    }

    private List<?> valueAwait(Command command) throws Exception {
        SharedValue value = value(command);
        byte[] wanted = command.bytes(0);
        peer.eventually(() -> Arrays.equals(value.getValue(), wanted), "seeing the value");
        return Verb.DONE;
    }

    private DistributedAtomicLong atomicLong(Command command) {
        return new DistributedAtomicLong(peer.client, command.path(), MANY_TRIES);
    }

    private DistributedAtomicInteger atomicInteger(Command command) {
        return new DistributedAtomicInteger(peer.client, command.path(), MANY_TRIES);
    }

    private static List<?> result(AtomicValue<?> value) {
        if (!value.succeeded()) {
            throw new IllegalStateException("others were always faster");
        }
        return List.of(value.preValue(), value.postValue());
    }

    private List<?> longCompareAndSet(Command command) throws Exception {
        return List.of(atomicLong(command).compareAndSet(command.number(0), command.number(1)).succeeded());
    }

    private List<?> integerCompareAndSet(Command command) throws Exception {
        return List.of(atomicInteger(command).compareAndSet(command.integer(0), command.integer(1)).succeeded());
    }
}
