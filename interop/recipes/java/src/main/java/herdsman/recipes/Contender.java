package herdsman.recipes;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;

/**
 * A process that uses Curator's and ZooKeeper's own recipes as it is told on standard input, so that a test can make it
 * compete with others for the same paths. The protocol is in README.md of interop/recipes.
 *
 * <p>In: the connect string and, optionally, the limit in milliseconds for everything that waits. Out: {@code ready} and
 * the session's id, then one answer a command, in the order in which they finish. Standard error is for people.
 */
public final class Contender {
    private static final long LIMIT_MS = 60_000;

    private final Map<String, Verb> verbs = new HashMap<>();
    private final ExecutorService threads = Executors.newCachedThreadPool(Contender::daemon);
    private final PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Contender(Peer peer) {
        verbs.putAll(new Locks(peer).verbs());
        verbs.putAll(new Elections(peer).verbs());
        verbs.putAll(new Barriers(peer).verbs());
        verbs.putAll(new Counters(peer).verbs());
        verbs.putAll(new Queues(peer).verbs());
        verbs.putAll(new Nodes(peer).verbs());
        verbs.putAll(new Services(peer).verbs());
        verbs.putAll(new Sessions(peer).verbs());
        verbs.putAll(new ZookeeperRecipes(peer).verbs());
    }

    public static void main(String[] arguments) {
        if (arguments.length < 1) {
            System.err.println("usage: Contender CONNECT_STRING [LIMIT_MS]");
            System.exit(2);
        }
        long limitMs = arguments.length > 1 ? Long.parseLong(arguments[1]) : LIMIT_MS;
        try {
            Peer peer = new Peer(arguments[0], limitMs);
            new Contender(peer).serve(peer);
            haltAfter(limitMs);
            peer.close();
            System.exit(0);
        } catch (Exception failed) {
            System.err.println("the contender gives up: " + failed);
            System.exit(1);
        }
    }

    static Thread daemon(Runnable body) {
        Thread thread = new Thread(body);
        thread.setDaemon(true);
        return thread;
    }

    /** Closing talks to the server; a server that is gone must not keep this process alive. */
    private static void haltAfter(long limitMs) {
        daemon(() -> {
            try {
                Thread.sleep(limitMs);
            } catch (InterruptedException ignored) {
                // Nobody interrupts this thread; if somebody does, the end comes sooner.
            }
            Runtime.getRuntime().halt(1);
        }).start();
    }

    /** Until standard input ends. A command never keeps the next one waiting. */
    private void serve(Peer peer) throws Exception {
        answers.println("ready " + Sessions.id(peer));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String given = line;
            if (!given.isBlank()) {
                threads.execute(() -> answers.println(answer(given)));
            }
        }
    }

    private String answer(String line) {
        String tag = line.strip().split(" ", 2)[0];
        try {
            Command command = Command.parse(line);
            Verb verb = verbs.get(command.name());
            if (verb == null) {
                throw new IllegalArgumentException("there is no " + command.name());
            }
            return tag + " ok" + words(verb.run(command));
        } catch (Exception | LinkageError failed) {
            return tag + " error " + failed.toString().replaceAll("\\s+", " ");
        }
    }

    private static String words(List<?> values) {
        return values.stream().map(value -> " " + Words.encode(value)).collect(Collectors.joining());
    }
}
