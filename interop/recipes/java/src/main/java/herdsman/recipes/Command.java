package herdsman.recipes;

import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * One line from the test: {@code tag recipe verb [path[#name] [argument…]]}.
 *
 * <p>The path, with the name if there is one, is the key of the handle that the recipe's commands share.
 */
record Command(String tag, String recipe, String verb, String key, List<byte[]> arguments) {
    static Command parse(String line) {
        List<String> words = List.of(line.strip().split(" +"));
        if (words.size() < 3) {
            throw new IllegalArgumentException("a command is: tag recipe verb [path [argument…]]");
        }
        String key = words.size() > 3 ? text(Words.decode(words.get(3))) : "";
        List<byte[]> arguments = words.stream().skip(4).map(Words::decode).toList();
        return new Command(words.get(0), words.get(1), words.get(2), key, arguments);
    }

    String name() {
        return recipe + " " + verb;
    }

    /** The node path: the key without the handle's name. */
    String path() {
        int name = key.indexOf('#');
        return name < 0 ? key : key.substring(0, name);
    }

    boolean has(int index) {
        return index < arguments.size();
    }

    byte[] bytes(int index) {
        if (!has(index)) {
            throw new IllegalArgumentException(name() + " needs " + (index + 1) + " or more arguments after the path");
        }
        return arguments.get(index);
    }

    String text(int index) {
        return text(bytes(index));
    }

    int integer(int index) {
        return Integer.parseInt(text(index));
    }

    long number(int index) {
        return Long.parseLong(text(index));
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
