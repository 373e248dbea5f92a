package herdsman.recipes;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/**
 * How bytes become one word of a line and come back.
 *
 * <p>Printable ASCII stands for itself; anything else, a space and a percent sign are written as %XX. The empty word is
 * a single percent sign, so that a word always has at least one character.
 */
final class Words {
    private static final String EMPTY = "%";

    private Words() {}

    static String encode(byte[] bytes) {
        if (bytes.length == 0) {
            return EMPTY;
        }
        StringBuilder word = new StringBuilder(bytes.length);
        for (byte each : bytes) {
            if (each > ' ' && each < 0x7f && each != '%') {
                word.append((char) each);
            } else {
                word.append(String.format("%%%02X", each & 0xff));
            }
        }
        return word.toString();
    }

    static String encode(Object value) {
        return encode(value instanceof byte[] bytes ? bytes : String.valueOf(value).getBytes(StandardCharsets.UTF_8));
    }

    static byte[] decode(String word) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(word.length());
        if (word.equals(EMPTY)) {
            return bytes.toByteArray();
        }
        for (int at = 0; at < word.length(); at++) {
            char each = word.charAt(at);
            if (each == '%') {
                if (at + 2 >= word.length()) {
                    throw new IllegalArgumentException("a percent sign needs two hex digits after it: " + word);
                }
                bytes.write(Integer.parseInt(word, at + 1, at + 3, 16));
                at += 2;
            } else {
                bytes.write(each);
            }
        }
        return bytes.toByteArray();
    }
}
