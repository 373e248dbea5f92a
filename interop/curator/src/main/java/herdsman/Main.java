package herdsman;

import java.util.ArrayList;
import java.util.List;

/**
 * Runs Curator's recipes against the server whose connect string is the first argument. Prints a line for each
 * check and exits with 1 if any failed. Further arguments name the checks to run, by the start of their names.
 */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) {
        if (arguments.length == 0) {
            System.err.println("usage: herdsman.Main HOST:PORT [CHECK...]");
            System.exit(2);
        }
        List<String> wanted = List.of(arguments).subList(1, arguments.length);
        List<Check> checks = new ArrayList<>();
        checks.addAll(PlainChecks.ALL);
        checks.addAll(WatchChecks.ALL);
        checks.addAll(LockChecks.ALL);
        checks.addAll(ElectionChecks.ALL);
        checks.addAll(BarrierChecks.ALL);
        checks.addAll(CounterChecks.ALL);
        checks.addAll(QueueChecks.ALL);
        checks.addAll(NodeChecks.ALL);
        checks.addAll(CacheChecks.ALL);
        checks.addAll(DiscoveryChecks.ALL);

        int failed = 0;
        int passed = 0;
        for (Check check : checks) {
            if (!wanted.isEmpty() && wanted.stream().noneMatch(check.name()::startsWith)) {
                continue;
            }
            if (check.passes(arguments[0])) {
                passed++;
            } else {
                failed++;
            }
        }
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 && passed > 0 ? 0 : 1);
    }
}
